"""What goes into a figure comes out of it: values, sums, extremes, units."""

import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from reports.bands import spans
from reports.downsample import curve
from reports.figures.latency import latency
from reports.figures.load_over_time import load_over_time
from reports.figures.memory_over_time import memory_over_time
from reports.figures.memory_shares import memory_shares
from reports.figures.running_over_time import running_over_time
from reports.figures.time_split import seconds, time_split
from reports.figures.waterfall import lives
from reports.latency import Latency, end_to_end, time_per_output_token, time_to_first_token
from reports.load import Run, load_runs
from reports.theme import USES, stroke
from tests.reports.synthetic import CAPACITY, PAGING, PREALLOCATION, Spec, Write

GIB = 2**30


@pytest.fixture
def runs(write_run: Write) -> list[Run]:
    return load_runs([write_run(PREALLOCATION), write_run(PAGING)])


def figures(runs: list[Run]) -> list[go.Figure]:
    known = [(run.label, end_to_end(run)) for run in runs]
    return [
        memory_shares(runs),
        memory_over_time(runs),
        load_over_time(runs),
        time_split(runs),
        latency("end-to-end latency", "s", 1.0, known),
    ]


def test_memory_stacks_up_to_the_capacity_at_every_sample(runs: list[Run]) -> None:
    traces = memory_over_time(runs).data  # each of 400 samples a span of its own
    assert len(traces) == len(runs) * len(USES)
    for i, run in enumerate(runs):
        panel = traces[i * len(USES) : (i + 1) * len(USES)]
        assert len({trace.stackgroup for trace in panel}) == 1
        np.testing.assert_allclose(sum(trace.y for trace in panel), CAPACITY / GIB, rtol=1e-12)
        for use, trace in zip(USES, panel, strict=True):
            np.testing.assert_array_equal(trace.y * GIB, run.timeline[f"{use}_bytes"])
            np.testing.assert_array_equal(trace.x, run.timeline["time_s"])


def test_the_panels_share_their_scales(runs: list[Run]) -> None:
    layout = memory_over_time(runs).layout
    assert layout.yaxis.range == layout.yaxis2.range
    assert layout.yaxis.range[1] > CAPACITY / GIB
    assert {shape.y0 for shape in layout.shapes} == {CAPACITY / GIB}
    assert layout.yaxis2.domain[1] < layout.yaxis.domain[0]


def test_the_key_has_a_colour_of_its_own_for_each_use_and_each_run() -> None:
    assert len({use.color for use in USES.values()}) == len(USES)
    assert len({stroke(i) for i in range(45)}) == 45


def test_shares_are_the_metrics(runs: list[Run]) -> None:
    assert "while requests run" in memory_shares(runs).layout.xaxis.title.text  # as their formula
    traces = memory_shares(runs).data
    np.testing.assert_allclose(sum(np.array(trace.x) for trace in traces), 100)
    for use, trace in zip(USES, traces, strict=True):
        assert list(trace.x) == [run.value(f"kv_{use}_share_mean") for run in runs]


def test_waiting_and_running_are_the_samples(runs: list[Run]) -> None:
    named = [trace for trace in load_over_time(runs).data if trace.name == "waiting"]
    assert len(named) == len(runs)
    for trace, run in zip(named, runs, strict=True):
        np.testing.assert_array_equal(trace.y, run.timeline["waiting"])
    lines = [trace for trace in running_over_time(runs).data if trace.name]
    for trace, run in zip(lines, runs, strict=True):
        np.testing.assert_array_equal(trace.y, run.timeline["running"])


def test_arrived_and_done_end_with_all_requests_on_one_scale(runs: list[Run]) -> None:
    figure = load_over_time(runs, 50)
    for name in ("arrived", "done"):
        ends = [trace.y[-1] for trace in figure.data if trace.name == name]
        assert ends == [300, 300]
    assert figure.layout.yaxis.range == figure.layout.yaxis2.range


def test_spans_keep_the_extremes_and_the_mean() -> None:
    time = np.arange(1000.0)
    values = np.zeros(1000)
    values[501], values[7] = 9.0, -3.0
    found = spans(time, 10)
    assert found.most(values).max() == 9.0
    assert found.least(values).min() == -3.0
    assert found.mean(values).mean() == pytest.approx(values.mean())
    np.testing.assert_allclose(found.time, np.arange(10) * 100 + 49.5)


def test_cached_blocks_are_a_band_of_their_own(write_run: Write) -> None:
    (run,) = load_runs([write_run(PAGING)])
    half = run.timeline["free_bytes"] // 2
    run = replace(run, timeline={**run.timeline, "cached_bytes": half})
    traces = {trace.name: trace for trace in memory_over_time([run]).data}
    np.testing.assert_allclose(traces["cached"].y, half / GIB)
    np.testing.assert_allclose(
        traces["free"].y + traces["cached"].y, run.timeline["free_bytes"] / GIB
    )
    shares = {trace.name: trace.x[0] for trace in memory_shares([run]).data}
    assert shares["cached"] + shares["free"] == pytest.approx(run.value("kv_free_share_mean"))


def test_a_requests_time_is_whole_in_the_waterfall(runs: list[Run]) -> None:
    run = runs[0]
    for life, q in zip(lives(run), (50, 90, 99), strict=True):
        latency = run.requests["finish_s"] - run.requests["arrival_s"]
        nearest = np.sort(latency)[int(np.ceil(q / 100 * len(latency))) - 1]
        assert life.queued + life.prefill + life.decode == pytest.approx(nearest)


def test_of_requests_that_took_equally_long_the_earlier_row_is_nearest(
    runs: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows 0 to 9 take 1, 2, 1, 2 s and so on: in order that is 0, 2, 4, 6, 8, 1, 3, 5, 7, 9. The
    5th is the median, the 9th the p90, the 10th the p99, also where rows come three at a time."""
    arrival = np.arange(10.0)
    requests = {
        "request_id": np.arange(10),
        "status": np.full(10, "finished"),
        "arrival_s": arrival,
        "first_scheduled_s": arrival + 0.25,
        "first_token_s": arrival + 0.5,
        "finish_s": arrival + np.tile([1.0, 2.0], 5),
    }
    run = replace(runs[0], requests=requests)
    assert [life.request for life in lives(run)] == [8, 7, 9]
    monkeypatch.setattr("workloads.spool.ROWS", 3)
    assert [life.request for life in lives(run)] == [8, 7, 9]


def test_time_split_adds_up_to_the_last_step(runs: list[Run]) -> None:
    for run in runs:
        assert sum(seconds(run)) == pytest.approx(run.steps["end_s"].max())
    assert time_split(runs).layout.xaxis.title.text == "time spent (s)"
    assert [trace.name for trace in time_split(runs).data] == [
        "steps with prefill",
        "pure decode steps",
        "idle",
    ]


def test_latency_percentiles_are_on_the_curve(runs: list[Run]) -> None:
    run = runs[0]
    figure = latency("ttft", "ms", 1000.0, [(run.label, time_to_first_token(run))], 10**6)
    (trace,) = figure.data
    middle = trace.x[np.searchsorted(trace.y, 50.0)]
    assert middle == pytest.approx(run.value("ttft_ms_p50"), rel=0.01)
    assert trace.y[-1] == 100.0


def test_requests_without_a_latency_stay_in_the_denominator(write_run: Write) -> None:
    (run,) = load_runs([write_run(Spec("paging:block_size=16", 24, "block", longest=300))])
    refused = run.count("refused") / len(run.requests["status"])
    (trace,) = latency("e2e", "s", 1.0, [(run.label, end_to_end(run))]).data
    assert trace.y[-1] == pytest.approx(100 * (1 - refused))


def test_a_single_output_token_has_no_time_per_token(runs: list[Run]) -> None:
    count = len(runs[0].requests["status"])
    one, two = np.full(count, 1), np.full(count, 2)
    columns = {**runs[0].requests, "output_tokens": one, "generated_tokens": one}
    assert time_per_output_token(replace(runs[0], requests=columns)).of == 0
    columns |= {"output_tokens": two}  # cut short after the first
    known = time_per_output_token(replace(runs[0], requests=columns))
    assert (len(known.values), known.of) == (0, count)


@pytest.mark.parametrize(
    ("values", "kind"), [([1.0, 2.0], None), ([0.0, 50.0], None), ([0.01, 50.0], "log")]
)
def test_the_axis_is_logarithmic_where_apt(values: list[float], kind: str | None) -> None:
    figure = latency("ttft", "s", 1.0, [("a", Latency(np.array(values), 2))])
    assert figure.layout.xaxis.type == kind


def test_every_axis_has_a_unit(runs: list[Run]) -> None:
    for figure in figures(runs):
        axes = figure.to_dict()["layout"]
        for name, axis in axes.items():
            if re.match(r"[xy]axis", name) and axis.get("autorange") != "reversed":  # labels
                title = axis["title"]["text"]
                assert re.search(r"\((s|ms|%|GiB)(, logarithmic)?\)$|^(GiB|requests)$", title), (
                    title
                )


def test_a_long_curve_keeps_its_ends_and_its_ranks() -> None:
    values = np.random.default_rng(2).random(10_000)
    x, ranks = curve(values, 100)
    assert len(x) == 100
    assert (x[0], x[-1]) == (values.min(), values.max())
    np.testing.assert_array_equal(np.sort(values)[ranks - 1], x)
