"""`kvtwin search`: the most load a service level bears, or the least that bears a load."""

from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sim.commands.kept import keeping_runs
from sim.commands.plugins import load_plugins
from sim.sweep.given import Given


def search(
    trace: str,
    /,
    *,
    given: Given = None,
    set: Annotated[list[str] | None, Parameter(negative="")] = None,
    over: str = "request_rate",
    resolution: float | None = None,
    minimise: str | None = None,
    draws: int = 1,
    max_gpus: int = 64,
    sampler: str | None = None,
    trials: int | None = None,
    sample_seed: int = 0,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("out/search"),
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    quiet: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Find the highest load that meets a service level, or the smallest system that bears a load.

    Options of `kvtwin simulate` may have several values, as for `kvtwin sweep`; the best
    combination of them is found. A run is stopped as soon as its level is lost for certain. All
    runs share their arrivals (scaled, or drawn from the same seeds), so that loads differ in
    nothing else.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (`kvtwin list traces`).
    set
        NAME=VALUES of an option, or of a policy's own option, such as block_size=16,32.
    over
        The load that is raised: request_rate, users or concurrency; with limits as
        request_rate=1:20.
    resolution
        Loads are multiples of it; the one after the answer breaks the level. Default: 0.1
        requests/s, or 1 user.
    minimise
        gpus or cost, at the load that is given: how many --replicas of which configuration.
    draws
        With --arrivals: the level must hold under so many seeds' arrivals.
    max_gpus
        Most GPUs for --minimise.
    sampler
        tpe: where there are too many combinations to try all, let Optuna choose them by what
        earlier ones were worth; needs `pip install 'kvtwin[optuna]'`.
    trials
        How many it chooses. Default: 50.
    sample_seed
        Of that choice.
    output
        Folder of the table of runs; what is there is not run again.
    plugin
        A Python file that defines policies (docs/adding-a-policy.md) or cost models
        (docs/adding-a-cost-model.md); may be repeated.
    quiet
        Print the answer alone, without a line for each run.
    json
        Print the answer as JSON.
    """
    from reports.formats import counted
    from reports.frontier import PAGE, write_frontier
    from sim.run.service_level import limits_ms
    from sim.sweep.answer import answer_lines, answer_record
    from sim.sweep.given import grid_of
    from sim.sweep.journal import NAME, journal_in
    from sim.sweep.question import question_of
    from sim.sweep.search import Search
    from sim.sweep.table import CSV, columns_of, write_table
    from workloads import read_trace

    load_plugins(plugin)
    question = question_of(
        over, resolution, minimise, draws, max_gpus, sampler, trials, sample_seed
    )
    grid = grid_of(given, set)
    requests = read_trace(trace, columns=grid.base.columns)
    with journal_in(output) as journal, keeping_runs(output):
        said = (lambda text: None) if quiet or json else print
        searched = Search(grid, requests, question, journal, said).answer()
        table = columns_of(searched.rows)
        write_table(table, output)
        lines = list(answer_lines(searched, requests))
        settings = [*grid.varied, question.over]
        write_frontier(table, settings, limits_ms(grid.base.slo), output / PAGE, lines)
    if json:
        print(dumps(answer_record(searched, requests), indent=1, allow_nan=False))
        return
    for line in lines:
        print(line)
    whole = sum(row["error"] is None and row["lost_at_s"] is None for row in searched.rows)
    before = f"; {searched.reused:,} of them run before" if searched.reused else ""
    print(
        f"{counted(len(searched.rows), 'run')}, {whole:,} of them whole (the others can't be run, "
        f"or were stopped when the level was lost){before}, each a row of {output / CSV}; "
        f"page: {output / PAGE}"
    )
    if searched.others:
        print(
            f"{counted(searched.others, 'run')} of other commands are kept in {output / NAME}; "
            "a search runs its own, and they are not in this table"
        )
