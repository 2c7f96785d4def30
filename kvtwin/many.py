"""What the commands `sweep` and `search` do, as functions that answer with data frames."""

from contextlib import AbstractContextManager, nullcontext
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sim.run.keywords import INSTEAD, checked_trace, names_told
from sim.sweep.answer import answer_lines
from sim.sweep.given import grid_from
from sim.sweep.grid import Grid, Value, read_values
from sim.sweep.journal import Journal, journal_in
from sim.sweep.question import question_of
from sim.sweep.runners import runner
from sim.sweep.search import Found, Search
from sim.sweep.sweep import plan_of, run_sweep
from sim.sweep.table import columns_of, write_table
from workloads import read_trace
from workloads.errors import InputError
from workloads.given import check_arguments
from workloads.schema import Trace, TraceLike

if TYPE_CHECKING:
    import pandas as pd


@names_told
def sweep(
    trace: TraceLike,
    *,
    folder: str | Path | None = None,
    sample: int | None = None,
    sample_seed: int = 0,
    jobs: int | None = None,
    on: str = "here",
    **options: Any,
) -> "pd.DataFrame":
    """Every combination of options as a row: those of `simulate`, and of policies by their names,
    each one value, a list, tuple, range or array of them, or text as on the command line: "16,32",
    "0.5:3:0.5".

    With a `folder`, finished runs and the table are kept there, and are not run again. `jobs` are
    processes (every core), `on` is "here", "ray" or "ray://HOST:10001". Raises InputError.
    """
    given = check_arguments(sweep, locals())
    import pandas as pd

    checked_trace(trace)
    requests = trace if isinstance(trace, Trace) else read_trace(trace)
    work, plan = plan_of(_grid(options), requests, given["sample"], given["sample_seed"])
    with _journal(folder) as journal:
        table = run_sweep(plan, work, requests, journal, runner(on, given["jobs"]))
        if folder is not None:
            write_table(table, Path(folder))
    return pd.DataFrame(table)


class Answer(NamedTuple):
    """The best configuration and the runner-up, every run as a row, and all of it in words."""

    best: Found | None
    runner_up: Found | None
    runs: "pd.DataFrame"
    text: str

    def __repr__(self) -> str:
        return f"<Answer {self.text.partition(chr(10))[0]} ({len(self.runs):,} runs)>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


@names_told
def search(
    trace: TraceLike,
    *,
    over: str = "request_rate",
    resolution: float | None = None,
    minimise: str | None = None,
    draws: int = 1,
    max_gpus: int = 64,
    sampler: str | None = None,
    trials: int | None = None,
    sample_seed: int = 0,
    folder: str | Path | None = None,
    **options: Any,
) -> Answer:
    """The most load that the level `slo` bears; or, to `minimise`, the fewest "gpus" or the least
    "cost" for a load; over the combinations of options, which are as for `sweep`.

    With `sampler="tpe"` Optuna chooses so many `trials` of them instead of trying all. Raises
    InputError.
    """
    check_arguments(search, locals())
    import pandas as pd

    checked_trace(trace)
    requests = trace if isinstance(trace, Trace) else read_trace(trace)
    question = question_of(
        over, resolution, minimise, draws, max_gpus, sampler, trials, sample_seed
    )
    with _journal(folder) as journal:
        searched = Search(_grid(options), requests, question, journal).answer()
    runs = pd.DataFrame(columns_of(searched.rows))
    text = "\n".join(answer_lines(searched, requests))
    return Answer(searched.best, searched.runner_up, runs, text)


def _grid(options: dict[str, Any]) -> Grid:
    for name, instead in {**INSTEAD, "output": "folder= keeps the runs and their table"}.items():
        if name in options:
            raise InputError(f"no option {name!r}; {instead}")
    return grid_from({name: _values(name, given) for name, given in options.items()})


def _values(name: str, given: Any) -> list[Value]:
    """Texts are read as on the command line; all else is what it is."""
    if isinstance(given, np.ndarray):
        given = given.tolist()  # Python's numbers
    several = given if isinstance(given, list | tuple | range) else [given]
    found: list[Value] = []
    for one in several:
        one = one.item() if isinstance(one, np.generic) else one
        found += read_values(name, [one]) if isinstance(one, str) else [one]
    return found


def _journal(folder: str | Path | None) -> AbstractContextManager[Journal]:
    return nullcontext(Journal(None)) if folder is None else journal_in(Path(folder))
