"""What Python gives is what was asked for, or one line says what is wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from kvtwin import (
    InputError,
    Int8,
    Paging,
    Run,
    check_policy,
    compare_run,
    report,
    search,
    simulate,
    size,
    sweep,
)

LLAMA: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-40gb"}
AZURE = "azure-2023-conv"
anything: Any = lambda value: value  # noqa: E731  # what a type checker would refuse


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate(AZURE, **LLAMA, first=5)


def one_line(call: Callable[[], object]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


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
    ],
)
def test_size(given: dict[str, Any], message: str) -> None:
    assert one_line(lambda: size(**{**LLAMA, "context": 512, **given})) == message


def test_lengths_of_numpy() -> None:
    sized = size(**LLAMA, context=anything(np.array([512, 1024])))
    assert [fit.context_tokens for fit in sized.sizing.fits] == [512, 1024]


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
    [(pd.DataFrame({"a": [1]}), "(DataFrame)"), ([1, 2], "[1, 2]"), (None, "None")],
    ids=["frame", "list", "none"],
)
def test_what_is_no_trace(trace: Any, shown: str) -> None:
    for call in (simulate, sweep):
        assert one_line(lambda call=call: call(trace, **LLAMA)).startswith(  # type: ignore[misc]
            f"trace {shown}: expected a path, a shipped trace's name or a Trace"
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
