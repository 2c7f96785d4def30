"""docs/accuracy.md holds no number that benchmarks/accuracy.py didn't make."""

import json
import re

import pytest

from benchmarks import accuracy
from benchmarks.recorded import facts, small, steps, tables
from benchmarks.recorded.replay import RUNS, replay
from sim.cost.kernels.spread import COMPUTED

NAMES = re.compile(
    r"`[^`]*`|```.*?```|\{\w+\}|RTX\s4090|RTX PRO\s6000|vLLM 0\.19\.0|Llama-3\.1-8B|Qwen3-(32|14)B"
    r"|Qwen3|TP 2|H100|H200|E2E",
    re.DOTALL,
)
DEFINITIONS = {"90 % bounds", "Intervals are of 95 %", "each sum at 20 µs"}
"""Levels and assumptions that the code states as constants; the code is looked up below."""


def numbers() -> dict[str, str]:
    found: dict[str, str] = json.loads(accuracy.NUMBERS.read_text(encoding="utf-8"))
    return found


def test_the_page_is_its_words_with_the_measured_numbers() -> None:
    assert accuracy.PAGE.read_text(encoding="utf-8") == accuracy.render(numbers())


def test_the_words_hold_no_number_of_their_own() -> None:
    words = accuracy.WORDS.read_text(encoding="utf-8")
    plain = NAMES.sub("", re.sub(r"```.*?```", "", words, flags=re.DOTALL))
    for phrase in DEFINITIONS:
        assert phrase in plain
        plain = plain.replace(phrase, "")
    assert re.findall(r"[^\n]*\d[^\n]*", plain) == []


def test_every_number_has_a_place() -> None:
    words = accuracy.WORDS.read_text(encoding="utf-8")
    places = set(re.findall(r"\{(\w+)\}", words))
    assert places <= set(numbers())
    assert set(accuracy.PARTS) | {"took"} <= places


@pytest.mark.parametrize("gpu", RUNS)
def test_the_errors_are_those_of_this_code(gpu: str) -> None:
    """The first column of errors, predicted again; the others change with it."""
    key = "errors_4090" if gpu == "RTX 4090" else "errors_pro_6000"
    lines = numbers()[key].splitlines()[2:]
    shown = [line.split(" | ")[2] for line in lines]
    assert shown == [tables.pct(error) for error in replay(gpu)[1].values()]


def test_the_quick_tables_are_those_of_this_code() -> None:
    found = numbers()
    assert found["waits"] == tables.waits()
    assert found["blocks"] == tables.blocks()
    assert found["small_kernels"] == facts.small_kernels()
    table, spread = small.beside_timed()
    assert found["beside_timed"] == table
    assert pytest.approx(spread, rel=0.05) == COMPUTED


def test_no_batch_size_is_off_by_more_than_chance_allows() -> None:
    """1.5 per cent, or beyond it by less than two standard errors; steps found from stamps."""
    assert "**beyond**" not in numbers()["steps"]
    assert numbers()["steps"].count("2 × RTX PRO 6000") == len(steps.BATCHES) + 1
