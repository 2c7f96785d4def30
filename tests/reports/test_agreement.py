"""Predicted against measured: what is judged and what is merely shown, drawn apart."""

from pathlib import Path
from typing import Any

from reports.agreement import pairs
from reports.build import render
from reports.figures.agreement import VERDICTS, error_bars
from reports.figures.memory_over_time import memory_over_time
from reports.load import Run, load_runs
from reports.theme import MUTED
from reports.validation import Row, Validation
from tests.reports.cases import Case, write_case
from tests.reports.synthetic import CAPACITY


def both(folder: Path, **changes: Any) -> list[Run]:
    predicted = write_case(folder / "p", Case("predicted", servers=10))
    measured = write_case(folder / "m", Case("measured", servers=10, kind="measured"), **changes)
    return load_runs([predicted, measured])


def judged(name: str, passed: bool | None) -> Row:
    return Row(policy="predicted", name=name, label=name, unit="s", predicted=1.0, measured=2.0,
               error_percent=-50.0, spread_percent=None,
               tolerance_percent=None if passed is None else 1.0, passed=passed)  # fmt: skip


def test_bars_within_beyond_and_not_judged_have_a_colour_each(tmp_path: Path) -> None:
    runs = both(tmp_path)
    rows = (judged("a", True), judged("b", False), judged("c", None))
    validation = Validation(schema_version=1, passed=False, repeats=1, rows=rows)
    bars = error_bars(pairs(runs), validation)[0].data[0]
    colors = [VERDICTS[passed].color for passed in (True, False, None)]
    assert list(bars.marker.color) == colors
    assert len({*colors}) == 3
    page = render(runs, validation=validation)
    for look in VERDICTS.values():
        assert f'<i style="background:{look.color}"></i>{look.meaning}</li>' in page


def test_kv_of_a_log_is_drawn_in_use_and_not_as_live(tmp_path: Path) -> None:
    """The log of the engine has no steps; 10 % live and 10 % internal were written to samples."""
    import pyarrow.parquet as pq

    measured = both(tmp_path)[1].folder
    steps = measured / "steps.parquet"
    pq.write_table(pq.read_table(steps).slice(0, 0), steps)
    (run,) = load_runs([measured])
    stack = [trace for trace in memory_over_time([run]).data if trace.stackgroup]
    assert [(one.name, one.fillcolor == MUTED) for one in stack] == [
        ("used", True),
        ("free", False),
    ]
    assert abs(stack[0].y[0] * 2**30 - 0.1 * CAPACITY) < 1
