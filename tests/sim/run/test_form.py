"""Which runs are compiled, told without compiling any."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.engine.closed_loop import ClosedLoop
from sim.run import form
from sim.run.compiled import build
from sim.run.simulation import Setup, prepare
from workloads.errors import InputError
from workloads.schema import Provenance, Trace


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Setup:
    """A run of paging, with numba at hand and nothing compiled yet."""
    monkeypatch.delenv(form.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(form, "find_spec", lambda name: object())
    return prepare("azure-2023-conv", first=50, model="llama-2-7b", gpu="a100-80gb")


def test_short_runs_are_interpreted_and_long_ones_compiled(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not form.compiles(setup, setup.cost())
    monkeypatch.setattr(form, "WARM", 50)
    assert not form.compiles(setup, setup.cost())  # it would have to be compiled first
    monkeypatch.setattr(form, "COLD", 50)
    assert form.compiles(setup, setup.cost())
    assert form.note(setup) is not None


def test_the_variable_decides(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(form.VARIABLE, "1")
    assert form.compiles(setup, setup.cost())
    monkeypatch.setattr(form, "COLD", 0)
    monkeypatch.setenv(form.VARIABLE, "0")
    assert not form.compiles(setup, setup.cost())
    monkeypatch.setenv(form.VARIABLE, "yes")
    with pytest.raises(InputError, match="KVTWIN_COMPILE=yes: expected 0 or 1"):
        form.compiles(setup, setup.cost())


def test_what_has_no_rule_is_interpreted(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(form.VARIABLE, "1")
    users = replace(setup, closed=ClosedLoop(4))
    assert not form.compiles(users, users.cost())
    said = form.note(users)
    assert said
    assert "closed loops" in said
    monkeypatch.delenv(form.VARIABLE)
    assert form.note(users) is None  # nobody asked


def test_steps_are_bounded_by_the_longest_context_of_the_trace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """vLLM 0.32's own limits on an H100: 1,024 sequences that all shared 131,072 tokens would read
    1,024 × 131,072 × 131,072 B, 17.6 TB or 5.3 s at 3.35 TB/s: more than 2⁶² attoseconds, 4.6 s.
    The hour's longest context, of 14,050 tokens and 1,000 more at most, takes an eighth of that.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(form, "find_spec", lambda name: object())
    monkeypatch.setenv(form.VARIABLE, "1")
    known = {"model": "llama-3.1-8b", "gpu": "h100", "engine": "vllm-0.32"}
    hour = prepare("azure-2023-conv", **known)
    assert form.compiles(hour, hour.cost())
    long = np.array([131_000])
    trace = Trace("long", np.zeros(1), long, np.array([72]), Provenance("made", 1))
    whole = prepare(trace, **known)
    assert not form.compiles(whole, whole.cost())
    said = form.note(whole)
    assert said
    assert "64 bits" in said


def test_without_numba_or_a_place_for_its_code_runs_are_interpreted(
    setup: Setup, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(form.VARIABLE, "1")
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert not form.compiles(setup, setup.cost())
    monkeypatch.setattr(form, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="needs numba"):
        form.compiles(setup, setup.cost())
    monkeypatch.delenv(form.VARIABLE)
    monkeypatch.setattr(form, "WARM", 0)
    assert not form.compiles(setup, setup.cost())


def test_the_programs_text_is_kept_and_made_anew_where_it_is_spoiled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = build.lowered()
    with monkeypatch.context() as once:
        once.setattr(build, "lowered", lambda: made)
        assert build.known.__wrapped__() == made
        (kept,) = (tmp_path / "kvtwin").glob("*.json")
        once.delattr(build, "lowered")  # it is read, not made
        assert build.known.__wrapped__() == made
    kept.write_text("[1, 2")
    assert build.known.__wrapped__() == made
    assert build.known.__wrapped__() == made
