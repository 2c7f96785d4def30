"""What goes into a figure comes out of it: values, sums, extremes, units."""

import re
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from reports.downsample import curve, kept
from reports.figures.latency import latency
from reports.figures.load_over_time import load_over_time
from reports.figures.memory_over_time import memory_over_time
from reports.figures.memory_shares import memory_shares
from reports.figures.time_split import seconds, time_split
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
    traces = memory_over_time(runs).data
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


def test_running_and_waiting_are_the_samples(runs: list[Run]) -> None:
    traces = load_over_time(runs).data
    expected = [run.timeline[state] for state in ("running", "waiting") for run in runs]
    for trace, counts in zip(traces, expected, strict=True):
        np.testing.assert_array_equal(trace.y, counts)


def test_a_short_queue_beside_a_long_one_is_seen(runs: list[Run]) -> None:
    figure = load_over_time(runs)
    layout = figure.layout
    assert layout.yaxis.range == layout.yaxis3.range  # running: one scale
    for axis, run in zip((layout.yaxis2, layout.yaxis4), runs, strict=True):
        assert axis.range[1] == pytest.approx(max(run.timeline["waiting"].max(), 1) * 1.08)
    assert layout.yaxis2.range != layout.yaxis4.range
    assert sum("own scale" in note.text for note in layout.annotations) == len(runs)


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
    columns = runs[0].requests | {"output_tokens": one, "generated_tokens": one}
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
                assert re.search(r"\((s|ms|%|GiB)\)$|^(GiB|requests)$", title), title


def test_downsampling_keeps_every_series_extremes() -> None:
    rng = np.random.default_rng(1)
    x = np.arange(100_000.0)
    series = [rng.random(len(x)) for _ in range(3)]
    series[0][51_234], series[1][77] = 9.0, -9.0
    rows = kept(x, [*series, np.zeros(len(x))], 1500)
    assert len(rows) <= 1500
    assert (rows[0], rows[-1]) == (0, len(x) - 1)
    assert (np.diff(rows) > 0).all()
    for y in series:
        assert (y[rows].min(), y[rows].max()) == (y.min(), y.max())


def test_few_points_are_kept_whole() -> None:
    assert kept(np.arange(5.0), [np.arange(5.0)], 60).tolist() == [0, 1, 2, 3, 4]
    assert len(kept(np.array([]), [np.array([])], 60)) == 0


def test_a_long_curve_keeps_its_ends_and_its_ranks() -> None:
    values = np.random.default_rng(2).random(10_000)
    x, ranks = curve(values, 100)
    assert len(x) == 100
    assert (x[0], x[-1]) == (values.min(), values.max())
    np.testing.assert_array_equal(np.sort(values)[ranks - 1], x)
