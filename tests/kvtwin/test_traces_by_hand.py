"""A Trace that Python made is as a reader would have made it, or one line says what is wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kvtwin import Run, Trace, search, simulate, sweep
from tests.one_line import one_line
from workloads import PrefixBlocks, Provenance, read_trace
from workloads.by_hand import check_trace
from workloads.schema import Turns

LLAMA: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-40gb"}


def made(**fields: Any) -> Trace:
    """Three requests a second apart, of 10 and 2 tokens."""
    good = {
        "name": "mine",
        "arrival_s": np.arange(3.0),
        "prompt_tokens": np.full(3, 10),
        "output_tokens": np.full(3, 2),
        "provenance": Provenance("mine", 3),
    }
    return Trace(**{**good, **fields})


def waits(**fields: Any) -> Turns:
    """The second request waits for the first."""
    good = {
        "session": [0, 0, 1], "turn": [0, 1, 0], "offsets": [0, 0, 1, 1], "after": [0],
        "delay_s": [0.0, 1.0, 0.0],
    }  # fmt: skip
    return Turns(**{**good, **fields})  # type: ignore[arg-type]  # lists are taken


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"prompt_tokens": None}, "prompt_tokens is NoneType, expected a row of whole numbers"),
        ({"prompt_tokens": [1, [2], 3]}, "prompt_tokens: expected a row of whole numbers"),
        ({"prompt_tokens": ["1", "2", "3"]}, "prompt_tokens holds text, expected a row of whole"),
        ({"output_tokens": [True] * 3}, "output_tokens holds bool, expected a row of whole"),
        ({"prompt_tokens": [1, 2.5, 3]}, "prompt_tokens is 2.5 in row 2, expected a whole number"),
        ({"prompt_tokens": [1, 2, np.nan]}, "prompt_tokens is nan in row 3, expected a whole"),
        ({"prompt_tokens": [1, 2, 2**63]}, "expected a whole number below 2^63"),
        ({"prompt_tokens": np.ones((3, 1), int)}, "prompt_tokens is a 2-dimensional array"),
        ({"arrival_s": np.array(["2023-11-16"] * 3, "M8[s]")}, "arrival_s holds datetime64[s]"),
        ({"prompt_tokens": [1, 2]}, "prompt_tokens has 2 rows, expected 3, as arrival_s has"),
        ({"output_tokens": [1] * 4}, "output_tokens has 4 rows, expected 3, as arrival_s has"),
    ],
    ids=str,
)
def test_columns_that_are_none(fields: dict[str, Any], message: str) -> None:
    assert message in one_line(lambda: made(**fields))


WRONG = [
    ({"prompt_tokens": [-1, 2, 3]}, "mine: row 1: prompt_tokens is -1, expected a whole number >="),
    ({"prompt_tokens": [1, 0, 3]}, "mine: row 2: prompt_tokens is 0, expected a whole number >= 1"),
    ({"output_tokens": [1, 2, 0]}, "mine: row 3: output_tokens is 0, expected a whole number >= 1"),
    ({"arrival_s": [0.0, 2.0, 1.0]}, "mine: row 3: arrival_s is 1.0, expected rows in order"),
    ({"arrival_s": [-1.0, 2.0, 3.0]}, "mine: row 1: arrival_s is -1.0, expected a finite number"),
    ({"arrival_s": [0, np.nan, 3.0]}, "mine: row 2: arrival_s is nan, expected a finite number"),
    ({"arrival_s": [0, 1, np.inf]}, "mine: row 3: arrival_s is inf, expected a finite number >= 0"),
    ({"provenance": None}, "trace: provenance is None, expected a Provenance"),
    ({"name": 3}, "trace: name is 3, expected text"),
    (
        {"prefix": PrefixBlocks(4, np.array([0, 3, 5, 8]), np.arange(8))},
        "mine: row 2: prefix has 2 ids, expected 3: 10 prompt tokens in blocks of 4",
    ),
    (
        {"prefix": PrefixBlocks(4, np.array([0, 3, 6, 9]), np.arange(8))},
        "mine: prefix.offsets: expected 4 ascending whole numbers from 0 to 8",
    ),
    ({"turns": waits(after=[1])}, "mine: row 2: turns.after is 1, expected a row before it"),
    ({"turns": waits(delay_s=[0, -1, 0])}, "mine: row 2: turns.delay_s is -1.0, expected at least"),
    ({"turns": waits(session=[0, 0])}, "mine: turns.session has 2 rows, expected 3"),
]


@pytest.mark.parametrize(("fields", "message"), WRONG, ids=lambda one: str(one)[:40])
def test_rows_that_no_reader_would_let_through(fields: dict[str, Any], message: str) -> None:
    assert message in one_line(lambda: simulate(made(**fields), **LLAMA))


@pytest.mark.parametrize("call", [simulate, sweep, search])
def test_every_way_in_is_guarded(call: Callable[..., object]) -> None:
    bad = made(prompt_tokens=[1, -2, 3])
    assert "mine: row 2: prompt_tokens is -2" in one_line(lambda: call(bad, **LLAMA))


def test_rows_beyond_the_first_look() -> None:
    """Long traces are looked at by parts of 65,536 rows; order holds between them, too."""
    rows = 200_000
    arrival_s = np.arange(rows, dtype=np.float64)
    arrival_s[131_072:] -= 10  # the first of a part
    trace = made(
        arrival_s=arrival_s, prompt_tokens=np.ones(rows, int), output_tokens=np.ones(rows, int)
    )
    said = one_line(lambda: check_trace(trace))
    assert said.startswith("mine: row 131073: arrival_s is 131062.0, expected rows in order")
    assert said.endswith("not before 131071.0")


def test_lists_and_whole_numbers_are_taken() -> None:
    given = made(
        arrival_s=[0, 1, 2], prompt_tokens=[10, 10.0, 10], output_tokens=np.full(3, 2, np.uint8)
    )
    assert given.arrival_s.dtype == np.float64
    assert given.prompt_tokens.dtype == given.output_tokens.dtype == np.int64
    as_arrays, as_lists = (simulate(trace, **LLAMA) for trace in (made(), given))
    assert as_lists.metrics.equals(as_arrays.metrics)


def test_arrays_of_the_type_are_not_copied() -> None:
    arrival_s = np.arange(3.0)
    trace = made(arrival_s=arrival_s)
    assert trace.arrival_s is arrival_s
    assert not trace.arrival_s.flags.writeable


@pytest.mark.parametrize("name", ["azure-2023-conv", "mooncake-conversation", "coding-agents"])
def test_what_readers_make_passes(name: str) -> None:
    check_trace(read_trace(name))


def test_a_trace_equals_itself() -> None:
    trace = made()
    same = replace(trace)
    assert (trace == trace, trace == same) == (True, False)
    assert len({trace, same}) == 2
    one, two = (simulate(trace, **LLAMA) for _ in range(2))
    assert isinstance(one, Run)
    assert (one == one, one == two) == (True, False)
