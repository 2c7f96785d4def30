"""What Python gives is what was asked for, or one line says what is wrong."""

from collections.abc import Callable
from html import escape
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kvtwin import (
    InputError,
    Int8,
    Paging,
    Prefix,
    Run,
    RunOptions,
    check_policy,
    compare_run,
    read_trace,
    report,
    search,
    simulate,
    size,
    sweep,
)
from sim.sweep.fingerprint import key_of
from tests.one_line import one_line

LLAMA: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-40gb"}
AZURE = "azure-2023-conv"
anything: Any = lambda value: value  # noqa: E731  # what a type checker would refuse


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(AZURE, **LLAMA, first=5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Paging(anything("16")), 'paging: block_size "16": expected a whole number'),
        (lambda: Paging(anything(16.0)), "paging: block_size 16.0: expected a whole number"),
        (lambda: Paging(True), "paging: block_size True: expected a whole number"),
        (
            lambda: Paging(layers=anything("none")),
            'paging: layers "none": expected reserved, unified or capped',
        ),
        (lambda: Int8(anything("32")), 'int8: group "32": expected a whole number'),
        (
            lambda: Paging(16) + anything("int8"),
            'paging + "int8": expected a policy such as Int8(), or the whole as text, '
            '"paging+int8"',
        ),
    ],
)
def test_policies_take_what_their_options_say(make: Callable[[], object], message: str) -> None:
    assert one_line(make) == message


def test_a_policy_of_numpy_numbers_is_the_same() -> None:
    assert Paging(anything(np.int64(32))) == Paging(32)
    assert type(Paging(anything(np.int64(32))).block_size) is int


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"context": "32k"}, 'context "32k": expected a whole number'),
        ({"context": [512, 2.5]}, "context 2.5: expected a whole number"),
        ({"tp": "2"}, 'tp "2": expected a whole number'),
        ({"policy": 16}, "policy 16: expected a policy such as Paging(16), or text"),
        ({"gpu": None}, "gpu: missing"),
        ({"max_model_len": 0}, "max_model_len=0, expected at least 2"),
        ({"max_num_seqs": 0}, "max_num_seqs=0, expected at least 1"),
    ],
)
def test_size(given: dict[str, Any], message: str) -> None:
    assert one_line(lambda: size(**{**LLAMA, "context": 512, **given})) == message


def test_lengths_of_numpy() -> None:
    sized = size(**LLAMA, context=anything(np.array([512, 1024])))
    assert [fit.context_tokens for fit in sized.sizing.fits] == [512, 1024]


def test_whole_numbers_of_numpy_are_pythons() -> None:
    """2^33 bytes hold 2^33 / (512 KiB a token × 1,024 tokens) = 16 requests; keys are Python's."""
    eight_gib: Any = np.int64(1 << 33)
    kept = RunOptions(**LLAMA, kv_cache_memory=eight_gib, swap_space=eight_gib)
    assert [type(one) for one in (kept.kv_cache_memory, kept.swap_space)] == [int, int]
    digest = "0" * 64
    named = RunOptions(**LLAMA, kv_cache_memory=1 << 33, swap_space=1 << 33)
    assert key_of(digest, kept) == key_of(digest, named)
    narrow: Any = np.int16(1024)  # in which the product would overflow
    sized = size(**LLAMA, context=narrow, max_model_len=narrow, kv_cache_memory=eight_gib)
    assert [fit.requests for fit in sized.sizing.fits] == [16]
    assert simulate(AZURE, **LLAMA, first=2, kv_cache_memory=eight_gib).setup.ledger.kv_bytes == (
        1 << 33
    )


def test_whole_numbers_of_numpy_in_sweeps_and_searches() -> None:
    """An int8 of 2 draws was counted in int8 itself, and a seed was refused by Python's random."""
    one: Any = np.int8(1)
    sizes: Any = [np.int64(1 << 33), np.int64(1 << 34)]
    table = sweep(
        AZURE, **LLAMA, first=2, kv_cache_memory=sizes, sample=one, sample_seed=one, jobs=one
    )
    assert len(table) == 1
    assert table["kv_cache_memory"][0] in (1 << 33, 1 << 34)
    draws: Any = np.int8(2)
    level = {"slo": "ttft_p100=60s", "arrivals": "poisson"}
    asked: dict[str, Any] = {**LLAMA, **level, "first": 3}
    found = [search(AZURE, **asked, draws=two, resolution=1) for two in (draws, 2)]
    assert found[0].text == found[1].text


@pytest.mark.parametrize("given", [True, 1.5, np.float64(2)], ids=repr)
def test_what_is_no_size(given: Any) -> None:
    assert one_line(lambda: simulate(AZURE, **LLAMA, first=2, kv_cache_memory=given)) == (
        f"--kv-cache-memory={given}: expected whole bytes, or text such as 12GiB"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resolution": "1"}, 'resolution "1": expected a number'),
        ({"draws": 2.5}, "draws 2.5: expected a whole number"),
        ({"slo": {"ttft_p99": 1}}, "slo {'ttft_p99': 1}: expected text such as"),
        ({"folder": 3}, "folder 3: expected text or a path"),
        ({"output": "x"}, "no option 'output'; folder= keeps the runs"),
    ],
)
def test_search(given: dict[str, Any], message: str) -> None:
    options = {**LLAMA, "first": 5, "slo": "ttft_p99=1s", **given}
    assert one_line(lambda: search(AZURE, **options)).startswith(message)


def test_sweep() -> None:
    """A wrong value among several is told before anything runs."""
    assert one_line(lambda: sweep(AZURE, **LLAMA, first=[2, 2.5])) == (
        "first 2.5: expected a whole number"
    )
    assert one_line(lambda: sweep(AZURE, **LLAMA, jobs=anything("2"))) == (
        'jobs "2": expected a whole number'
    )


@pytest.mark.parametrize(
    ("trace", "shown"),
    [(np.ones(3), "(ndarray)"), ([1, 2], "[1, 2]"), (None, "None"), ("", '""')],
    ids=["array", "list", "none", "empty"],
)
def test_what_is_no_trace(trace: Any, shown: str) -> None:
    for call in (simulate, sweep):
        assert one_line(lambda call=call: call(trace, **LLAMA)).startswith(  # type: ignore[misc]
            f"trace {shown}: expected a path, a shipped trace's name, a Trace or a data frame"
        )


def test_reports(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "x.html"
    assert one_line(lambda: report([], page)) == "report: expected at least one run"
    assert one_line(lambda: report(anything([3]), page)) == (
        "report 3: expected runs or their folders"
    )
    assert one_line(lambda: report(run, anything(3))) == "path 3: expected text or a path"
    assert one_line(lambda: run.report(anything(3))) == "path 3: expected text or a path"
    assert not page.exists()


def test_other_functions() -> None:
    assert one_line(lambda: check_policy(Paging(4), anything("3"))) == (
        'histories "3": expected a whole number'
    )
    assert one_line(lambda: check_policy(anything(Paging))).endswith("made: Paging(...)")
    assert one_line(lambda: compare_run(anything(3))) == "run_dir 3: expected text or a path"
    assert one_line(lambda: compare_run("x", tolerance=anything(3))) == (
        "tolerance 3: expected a Tolerance"
    )
    assert one_line(lambda: read_trace(AZURE, columns=anything(3))) == "columns 3: expected text"
    assert one_line(lambda: read_trace(AZURE, block_tokens=anything("3"))) == (
        'block_tokens "3": expected a whole number'
    )
    assert one_line(lambda: read_trace(AZURE, prefix_scope=anything("all"))) == (
        'prefix_scope "all": expected recorded or system'
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"output": "x"}, "no option 'output'; nothing is written by itself; run.report(path)"),
        ({"plugin": "x"}, "no option 'plugin'; give the policy itself, policy=Mine(...)"),
    ],
)
def test_what_only_the_command_line_has(given: dict[str, Any], message: str) -> None:
    assert one_line(lambda: simulate(AZURE, **LLAMA, **given)).startswith(message)


def test_an_option_that_is_missing() -> None:
    assert one_line(lambda: simulate(AZURE, gpu="h100")) == "model: missing"  # type: ignore[call-arg]


def test_a_run_is_one_line(run: Run) -> None:
    assert repr(run) == "<Run paging: llama-2-7b on a100-40gb, simulated, 5 requests>"


def test_results_are_one_line_and_tables() -> None:
    """Half a GiB holds 2^29 / (512 KiB a token × 512 tokens) = 2 requests of 512 tokens."""
    sized = size(**LLAMA, context=512, policy=Paging(16), kv_cache_memory="512MiB")
    assert repr(sized) == (
        "<Sized paging: llama-2-7b on a100-40gb, 0.50 GiB of KV cache; fit: 2 of 512 tokens>"
    )
    assert "<td>512</td><td style='text-align:right'>2</td>" in sized._repr_html_()
    compared = compare_run("rtx-4090-llama-3.1-8b")
    assert repr(compared).startswith("<Compared llama-3.1-8b on rtx-4090: ")
    assert compared._repr_html_().count("<tr>") == 1 + len(compared.errors)
    answer = search(AZURE, **LLAMA, first=5, slo="ttft_p100=60s", resolution=1000.0)
    assert repr(answer) == f"<Answer {answer.text.splitlines()[0]} ({len(answer.runs)} runs)>"
    assert answer._repr_html_() == f"<pre>{escape(answer.text)}</pre>"


COLUMNS: dict[str, Any] = {
    "arrival_s": [11.5, 11.0, 12.0],
    "prompt_tokens": [10, 20, 30],
    "output_tokens": [1, 2, 3],
}


@pytest.mark.parametrize(
    "kind",
    [
        dict,
        pd.DataFrame,
        lambda columns: {name: np.array(column) for name, column in columns.items()},
        lambda columns: pd.DataFrame(columns).convert_dtypes(),
    ],
    ids=["lists", "frame", "arrays", "nullable"],
)
def test_columns_are_a_trace(kind: Callable[[Any], Any]) -> None:
    """Sorted by arrival, the first at 0 s, as a file's rows are."""
    trace = simulate(kind(COLUMNS), **LLAMA).setup.trace
    assert trace.arrival_s.tolist() == [0.0, 0.5, 1.0]
    assert trace.prompt_tokens.tolist() == [20, 10, 30]
    assert trace.output_tokens.tolist() == [2, 1, 3]
    assert trace.provenance.notes == ("sorted by arrival: 1 rows were out of order",)


def test_other_columns_are_named_as_for_files() -> None:
    times = pd.to_datetime(["2024-01-01T00:00:00", "2024-01-01T00:00:02"])
    frame = pd.DataFrame({"when": times, "in": [5, 6], "out": [7, 8]})
    named = "arrival=when:iso,prompt=in,output=out"
    assert simulate(frame, **LLAMA, columns=named).setup.trace.arrival_s.tolist() == [0.0, 2.0]
    table = sweep(pd.DataFrame(COLUMNS), **LLAMA, tp=[1, 2], jobs=1)
    assert table["finished"].tolist() == [3, 3]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, 0, 2], "row 2: prompt_tokens is 0, expected a whole number >= 1"),
        ([1, 2.5, 3], "row 2: prompt_tokens is 2.5, expected a whole number >= 1"),
        ([True] * 3, "row 1: prompt_tokens is True, expected a whole number >= 1"),
        ([1, None, 2], "row 2: prompt_tokens is missing, expected a whole number >= 1"),
        ([1, 2], "column 'prompt_tokens': has 2 rows, expected 3"),
        ([1, "x", 2], "column 'prompt_tokens': expected numbers, times or text, all of a kind"),
        (np.ones((3, 2)), "column 'prompt_tokens': expected numbers, times or text, all of a kind"),
    ],
    ids=str,
)
def test_columns_pass_the_gate_of_files(column: Any, message: str) -> None:
    wrong = {**COLUMNS, "prompt_tokens": column}
    assert one_line(lambda: simulate(wrong, **LLAMA)) == f"given: {message}"


def test_a_trace_may_be_named() -> None:
    run = simulate(trace=AZURE, **LLAMA, first=5)  # type: ignore[call-arg]
    assert run["requests"] == 5
    table = sweep(trace=AZURE, **LLAMA, first=5, jobs=1)
    assert table["requests"].tolist() == [5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: anything(simulate)(**LLAMA), "trace: missing"),
        (lambda: anything(sweep)(**LLAMA), "trace: missing"),
        (lambda: anything(search)(**LLAMA), "trace: missing"),
        (lambda: anything(simulate)(AZURE), "model: missing"),
        (
            lambda: anything(simulate)(AZURE, "llama-2-7b"),
            "simulate: expected one trace, and options by name: model=...",
        ),
        (lambda: anything(simulate)(AZURE, trace=AZURE, **LLAMA), "trace: given twice"),
    ],
)
def test_what_is_missing_is_named(call: Callable[[], object], message: str) -> None:
    assert one_line(call) == message


def test_help_says_what_a_call_takes_and_gives() -> None:
    shown = signature(simulate)
    assert next(iter(shown.parameters)) == "trace"
    assert shown.parameters["trace"].kind is Parameter.POSITIONAL_OR_KEYWORD
    assert shown.return_annotation is Run
    assert simulate.__name__ == "simulate"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: size(anything("llama-2-7b"), "h100", anything(b"12")),
            "context (bytes): expected",
        ),
        (lambda: anything(size)("llama-2-7b", "h100"), "context: missing"),
        (lambda: size("llama-2-7b", "h100", 8, interval=90), "only the command line has it"),
        (lambda: size("llama-2-7b", "h100", 8, lang="zh"), "no option 'lang'; expected one of "),
        (lambda: size("llama-2-7b", "h100", 8, tpp=2), "no option 'tpp'; did you mean 'tp'?"),
        (
            lambda: size("llama-2-7b", "h100", 8, swap_space=-3),
            "swap_space -3 B: expected at least",
        ),
        (lambda: size("llama-2-7b", "h100", 8, data_parallel=4), "llama-2-7b has no experts"),
        (lambda: anything(simulate)(AZURE, **LLAMA, jobs=2), "sweep(..., jobs=N) takes several"),
        (lambda: anything(compare_run)("x", foo=1), "no option 'foo'; expected one of cost, "),
        (lambda: simulate(AZURE, **{**LLAMA, "model": ""}), "--model: is empty, expected a preset"),
        (lambda: simulate(AZURE, **LLAMA, cost=""), "--cost: is empty, expected roofline, table"),
        (
            lambda: size("llama-2-7b", "h100", 8, policy="sliding_window+int8"),
            "expected a placement first: preallocation+sliding_window+int8",
        ),
        (lambda: Int8() + Paging(), "expected a placement first: paging+int8"),
        (lambda: Int8() + Prefix(), "expected a placement first: paging+int8+prefix"),
    ],
)
def test_one_line_says_what_to_write(call: Callable[[], object], message: str) -> None:
    assert message in one_line(call)


def test_truth_of_numpy_is_truth() -> None:
    options = RunOptions(model="llama-2-7b", fast_forward=anything(np.False_))
    assert options.fast_forward is False
    with pytest.raises(InputError, match=r"first .*: expected a whole number"):
        RunOptions(model="llama-2-7b", first=anything(np.True_))


def test_memory_that_is_given_is_taken() -> None:
    """Other weights leave as much more as they are smaller."""
    usual = size("llama-2-7b", "a100-40gb", 4096)
    weights = next(line.size_bytes for line in usual.ledger.lines if line.name == "weights")
    given = size("llama-2-7b", "a100-40gb", 4096, weight_memory=anything(np.int64(14 << 30)))
    assert given.ledger.kv_bytes - usual.ledger.kv_bytes == weights - (14 << 30)


def test_a_rank_holds_its_share_of_the_experts() -> None:
    """Of 128 experts a layer, each of 4 ranks holds 32: three quarters of them aren't there."""
    weights = [
        next(line.size_bytes for line in sized.ledger.lines if line.name == "weights")
        for sized in (size("qwen3-30b-a3b", "h200", 4096, data_parallel=ranks) for ranks in (1, 4))
    ]
    expert_bytes = 3 * 2048 * 768 * 2  # three matrices of 2 B
    assert weights[0] - weights[1] == 48 * 96 * expert_bytes


def test_notes_of_the_command_line_are_those_of_python() -> None:
    sized = size("llama-3.1-8b", "h100", 1_000_000_000)
    assert sized.notes == ("llama-3.1-8b was made for 131,072 positions, not 1,000,000,000",)
    assert sized.notes[0] in repr(sized)
    assert sized.notes[0] in sized._repr_html_()
    assert size("llama-3.1-8b", "h100", 4096).notes == ()


def test_a_run_shows_its_engines() -> None:
    divided = simulate(AZURE, **LLAMA, first=5, tp=2, replicas=3)
    assert "llama-2-7b on a100-40gb, tp 2, 3 replicas" in repr(divided)
    assert "llama-2-7b on a100-40gb, tp 2, 3 replicas" in divided._repr_html_()
