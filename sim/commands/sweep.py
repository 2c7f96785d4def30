"""`kvtwin sweep`: every combination of options in one table, which a second try completes."""

from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sim.commands.kept import keeping_runs
from sim.commands.plugins import load_plugins
from sim.commands.progress import Progress
from sim.sweep.given import Given


def sweep(
    trace: str,
    /,
    *,
    given: Given = None,
    set: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("out/sweep"),
    sample: int | None = None,
    sample_seed: int = 0,
    jobs: int | None = None,
    on: str = "here",
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Run every combination of options; one table, a row a run, as Parquet and CSV.

    Every option of `kvtwin simulate` may be one value, a list (64,128,256) or a range (1:12:1,
    with both ends). A value with a "=" in it, and every policy, is one value: repeat the option.
    What has run is kept in the output folder and never run again: the same command goes on where
    it was ended, and one with more values adds to it.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (`kvtwin list traces`).
    set
        NAME=VALUES of an option, or of a policy's own option, such as block_size=16,32.
    output
        Folder of the table and of what has run so far.
    sample
        Only so many of the combinations, drawn without repetition.
    sample_seed
        Of that draw.
    jobs
        Processes. Default: every core.
    on
        here, ray (a cluster that this machine belongs to, else one of its own), or
        ray://HOST:10001; needs `pip install 'kvtwin[ray]'`.
    plugin
        A Python file that defines policies (docs/adding-a-policy.md) or cost models
        (docs/adding-a-cost-model.md); may be repeated.
    json
        Print where the table is, and how many runs were made, as JSON.
    """
    from reports.formats import counted
    from reports.frontier import PAGE, write_frontier
    from sim.run.service_level import limits_ms
    from sim.sweep.given import grid_of
    from sim.sweep.journal import NAME, journal_in
    from sim.sweep.runners import runner
    from sim.sweep.sweep import Run, plan_of, run_sweep
    from sim.sweep.table import CSV, PARQUET, write_table
    from workloads import read_trace

    load_plugins(plugin)
    grid = grid_of(given, set)
    requests = read_trace(trace, columns=grid.base.columns)
    work, plan = plan_of(grid, requests, sample, sample_seed)
    where = runner(on, jobs)
    with journal_in(output) as journal:
        before = sum(run.key in journal.rows for run in plan)
        with keeping_runs(output), Progress(len(plan), before) as progress:
            begun: list[Run] = []

            def done(run: Run) -> None:
                if not begun:
                    progress.start()  # it has a thread on a terminal; workers were forked before
                begun.append(run)
                progress.done(", ".join(map(str, run.point.values())))

            table = run_sweep(plan, work, requests, journal, where, done)
        write_table(table, output)
        write_frontier(table, grid.varied, limits_ms(grid.base.slo), output / PAGE)
    others = len(journal.rows) - len({run.key for run in plan})
    failed = sum(error is not None for error in table["error"])
    if json:
        print(
            dumps(
                {
                    "table": str(output / PARQUET),
                    "csv": str(output / CSV),
                    "runs": len(plan),
                    "run_before": before,
                    "failed": failed,
                    "in_no_row": others,
                }
            )
        )
        return
    print(
        f"{counted(len(plan), 'run')}, {before:,} of them run before, in {output / CSV} "
        f"and {PARQUET}"
    )
    if others:
        print(
            f"{counted(others, 'run')} of other commands are kept in {output / NAME}, and are "
            "not in this table"
        )
    print(f"page: {output / PAGE}")
    if failed:
        first = next(error for error in table["error"] if error is not None)
        print(f"{failed:,} can't be run (column error), such as: {first}")
