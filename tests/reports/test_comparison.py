"""Order, units and the best marks of the comparison; the first words of the report."""

from typing import NamedTuple

import pytest
from rich.console import Console

from reports.comparison import Row, rows
from reports.formats import column, duration, gib, listed, number, power, rate
from reports.load import load_runs
from reports.terminal import summary_table
from reports.verdict import verdict
from tests.reports.synthetic import PAGING, PREALLOCATION, Spec, Write, run_metrics


class M(NamedTuple):
    name: str
    value: float | None
    label: str = "label"
    unit: str = ""
    formula: str = "formula"


def row(*values: float | None, name: str = "ttft_ms_p50", finished: tuple[int, ...] = ()) -> Row:
    metrics = [
        [
            M(name, value, unit="%" if "of_used" in name else ""),
            *([M("finished", finished[i])] if finished else []),
        ]
        for i, value in enumerate(values)
    ]
    return next(row for group in rows(metrics).values() for row in group if row.name == name)


def test_groups_keep_the_producers_order_and_unknown_metrics_come_last() -> None:
    grouped = rows([[M("from_the_future", 1.0), M("ttft_ms_p50", 2.0), M("finished", 3)]])
    assert list(grouped) == ["Outcome", "Latency", "Other"]
    assert grouped["Other"][0].name == "from_the_future"
    assert not grouped["Other"][0].headline


def test_a_metric_that_one_run_lacks_is_null_there() -> None:
    (found,) = rows([[M("finished", 3)], []])["Outcome"]
    assert found.values == (3, None)


@pytest.mark.parametrize(
    ("values", "name", "best"),
    [
        ((3.0, 2.0), "ttft_ms_p50", (False, True)),
        ((3.0, 2.0), "output_throughput", (True, False)),
        ((3.0, 2.0), "from_the_future", (False, False)),
        ((2.0, 2.0), "ttft_ms_p50", (False, False)),
        ((2.0, 2.0, 3.0), "ttft_ms_p50", (False, False, False)),
        ((2.0, None), "ttft_ms_p50", (True, False)),
        ((None, None), "ttft_ms_p50", (False, False)),
        ((2.0,), "ttft_ms_p50", (False,)),
        ((99.71, 99.72, 50.0, 50.0), "kv_live_of_used_mean", (True, True, False, False)),  # 99.7
    ],
)
def test_the_best_is_marked(
    values: tuple[float | None, ...], name: str, best: tuple[bool, ...]
) -> None:
    assert row(*values, name=name).best == best


def test_a_run_that_serves_fewer_is_not_quicker() -> None:
    assert row(1.0, 2.0, 3.0, finished=(9, 10, 10)).best == (False, True, False)


def test_times_in_sentences() -> None:
    assert [duration(t) for t in (0.0125, 2.0, 98.11, 510.0, 10_987.5)] == [
        "12.5 ms", "2 s", "98.1 s", "8.5 min", "3.05 h"]  # fmt: skip


def test_numbers() -> None:
    assert number(3 * 2**30, "bytes") == "3.00"
    assert number(12345.6, "ms") == "12,346"
    assert number(0.0432, "s") == "0.043"
    assert number(57.28, "%") == "57.3"
    assert number(1000, "") == "1,000"
    assert number(None, "ms") == "–"
    assert gib(6_710_886_400) == "6.25 GiB"
    assert gib(4096) == "4.00 KiB"
    assert power(1.555e12, "tokens") == "1.56 × 10¹² tokens"
    assert rate(1.555e12, "B/s") == "1,555 GB/s"
    assert rate(312e12, "FLOP/s") == "312 TFLOP/s"
    assert rate(989.4e12, "FLOP/s") == "989.4 TFLOP/s"
    assert column([10_000.0, None, 6_376_199.0], "ms") == ("s", ["10.00", "–", "6,376"])
    assert column([9_999.0, 6_376_199.0], "ms") == ("s", ["10.00", "6,376"])
    assert column([9_999.0], "ms") == ("ms", ["9,999"])
    assert column([9_999.0], "ms", [20_000.0]) == ("s", ["10.00"])
    assert column([7_200_000.0, 14_400_000.0], "ms") == ("h", ["2.00", "4.00"])
    assert column([None], "ms") == ("ms", ["–"])
    assert column([2**30], "bytes") == ("GiB", ["1.00"])
    assert column([2**30, 2**20], "bytes") == ("GiB", ["1.00", "0.00"])
    assert column([None, 3 * 2**19], "bytes") == ("MiB", ["–", "1.50"])
    assert column([0], "bytes") == ("GiB", ["0.00"])
    assert rate(1.0, "B/s") == "GB/s not known"  # what a cost table's own device has
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"


def test_the_verdict_names_the_policy_that_serves_most_soonest(write_run: Write) -> None:
    words = verdict(load_runs([write_run(PREALLOCATION), write_run(PAGING)]))
    assert (words.tone, words.best) == ("ok", PAGING.name)
    assert words.headline.startswith(f"{PAGING.name} keeps up with 0.984 requests/s; preallocation")
    assert "preallocation wastes most" in words.details[-1]
    assert "internal" in words.details[-1]


def test_an_exact_policy_comes_before_a_lossy_one_that_is_quicker(write_run: Write) -> None:
    lossy = Spec("sliding_window:window=256", 24, "block", limitation="old tokens are forgotten")
    words = verdict(load_runs([write_run(lossy), write_run(PREALLOCATION)]))
    assert words.headline.startswith("preallocation falls behind")
    assert any("old tokens are forgotten" in sentence for sentence in words.details)


def test_where_limitations_are_not_stated_the_verdict_says_what_it_leaves_out(
    write_run: Write,
) -> None:
    silent = write_run(PAGING, policy={"spec": PAGING.name})
    words = verdict(load_runs([silent, write_run(PREALLOCATION)]))
    assert any("changes the model's answers" in sentence for sentence in words.details)
    stated = verdict(load_runs([write_run(PAGING, "b"), write_run(PREALLOCATION, "b")]))
    assert not any("changes the model's answers" in sentence for sentence in stated.details)


def test_a_lossy_policy_wins_where_exact_ones_serve_nothing(write_run: Write) -> None:
    lossy = Spec("sliding_window:window=256", 24, "block", limitation="old tokens are forgotten")
    words = verdict(load_runs([write_run(lossy), write_run(Spec("paging", 1, "block", longest=1))]))
    assert words.headline.startswith(f"{lossy.name} keeps up")
    assert any("changes the model's answers" in sentence for sentence in words.details)


def test_a_single_run_is_described_not_ranked(write_run: Write) -> None:
    words = verdict(load_runs([write_run(Spec("paging", 24, "block", longest=300))]))
    assert words.best is None
    assert words.tone == "mixed"
    assert any("are refused for want of memory" in sentence for sentence in words.details)


def test_nothing_to_serve_and_nothing_served(write_run: Write) -> None:
    empty = verdict(load_runs([write_run(Spec("paging", 4, "block", requests=0))]))
    refused = verdict(load_runs([write_run(Spec("refusing", 4, "block", longest=1))]))
    assert (empty.tone, empty.status) == ("failed", "nothing to serve")
    assert (refused.tone, refused.status) == ("failed", "all requests refused")
    assert "300 requests was refused" in refused.headline
    assert "12.00 GiB" in refused.headline


def test_why_all_were_refused_holds_whatever_the_reason(write_run: Write) -> None:
    spec = Spec("preallocation:max_len=50", 4, "block", longest=1)
    (run,) = load_runs([write_run(spec)])
    shortest = int(run.requests["prompt_tokens"].min())
    text = verdict([run]).headline
    assert f"even the shortest prompt, of {shortest} tokens, leaves no room for an answer" in text
    assert "within the policy's own options, the KV budget of 12.00 GiB" in text


def test_the_terminal_table_shows_every_run_and_marks_the_best() -> None:
    console = Console(width=100, force_terminal=True)
    table = summary_table({spec.name: run_metrics(spec) for spec in (PREALLOCATION, PAGING)})
    with console.capture() as captured:
        console.print(table)
    text = captured.get()
    assert "preallocation" in text
    assert "block_size=16" in text
    assert "\x1b[1;32m" in text
    assert "refused" not in text  # nothing was
