"""What is not executed is said in one place, and everybody quotes it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from executor.cache.table import Table
from executor.device.assemble import Executor, host_device, random_llama
from executor.device.machine import open_machine
from executor.device.refusals import REFUSALS, refusal
from executor.health import doctor
from executor.health.doctor import Finding, findings
from executor.validation.validate import validate
from sim.engine.limits import Pressure
from sim.model.presets import find_model
from sim.policy.counting.pages import Pages
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Placement, Retained
from sim.run.simulation import Setup, prepare
from tests.executor.test_layer_windows import setup as windowed
from tests.executor.test_policies_agree import MODEL, TRACE, setup
from workloads.errors import InputError

SHARED = "paging:block_size=8,layers=capped+prefix"


def swapping(given: Setup) -> Setup:
    return replace(given, limits=replace(given.limits, pressure=Pressure("swap", 1 << 30)))


def ahead(given: Setup) -> Setup:
    rules = replace(given.limits.rules, async_scheduling=True)
    return replace(given, limits=replace(given.limits, rules=rules))


def stored_in(name: str) -> Setup:
    machine = host_device(open_machine("cpu"))
    return prepare(TRACE, model=MODEL, gpu=machine, kv_cache_memory=2**20, kv_cache_dtype=name)


CASES = {
    "preallocation+top_k:k=64,page=8": (setup("preallocation+top_k:k=64,page=8"), "cpu", 0),
    "other pages": (setup("paging:block_size=16+top_k:k=64,page=8"), "cpu", 0),
    "virtual+int8": (setup("virtual+int8"), "cpu", 1),
    "virtual+int4": (setup("virtual+int4:group=4"), "cpu", 1),
    "virtual+top_k": (setup("virtual+top_k:k=64,mode=evict"), "cpu", 1),
    "virtual on a GPU": (setup("virtual"), "cuda", 2),
    "int4": (setup("paging+int4"), "cpu", 3),  # of 32 of a head's 16 dimensions
    "int8": (setup("paging+int8:group=8"), "cpu", 3),
    "int8 with zero points": (setup("paging+int8:scale=fp16,zero=fp16"), "cpu", 3),
    "fp8 with scales, as many bytes as int8": (setup("paging+fp8:scale=fp32"), "cpu", 3),
    "int8 without, as many bytes as fp8": (setup("paging+int8:scale=none"), "cpu", 3),
    "int4 of symmetric values": (setup("paging+int4:group=4,scale=fp32,zero=none"), "cpu", 3),
    "fp8_e5m2": (stored_in("fp8_e5m2"), "cpu", 3),
    "fp8_per_token_head": (stored_in("fp8_per_token_head"), "cpu", 3),
    "ahead": (ahead(setup("paging")), "cpu", 4),
}


@pytest.mark.parametrize("name", CASES)
def test_each_is_refused_in_its_own_words(name: str) -> None:
    given, kind, number = CASES[name]
    why = refusal(given, kind)
    expected = REFUSALS[number]
    assert why == f"{expected.what} is simulated and not executed: {expected.why}"
    assert "\n" not in why


def test_none_is_forgotten() -> None:
    assert {number for _, _, number in CASES.values()} == set(range(len(REFUSALS)))


@pytest.mark.parametrize(
    "policy",
    [
        "virtual",
        "virtual+fp8",
        "paging:block_size=8+top_k:k=64,page=8",
        "preallocation+int8",
        "paging+int8:scale=fp16",
        "paging+int4:group=4",
    ],
)
def test_what_is_near_is_not(policy: str) -> None:
    assert refusal(setup(policy), "cpu") is None
    for name in ("auto", "fp8", "fp8_e4m3", "int8", "int8_fp16", "int8_per_token_head"):
        assert refusal(stored_in(name), "cpu") is None
    assert refusal(windowed(SHARED), "cpu") is None
    assert refusal(swapping(windowed(SHARED, batching="static")), "cpu") is None


def test_groups_that_the_only_small_preset_can_have_are_named() -> None:
    """Heads of 64 dimensions, in quarters of 16."""
    small = find_model("llama-small")
    assert {group.head_dim for group in small.groups} == {64}
    assert "int4:group=16 where heads have 64" in REFUSALS[3].why


def test_what_is_expected_of_virtual_is_not_refused_next() -> None:
    with pytest.raises(InputError, match="expected mode=evict, which is simulated and not exec"):
        setup("virtual+top_k:k=64,page=8").policy.manager(setup("virtual").pool)


def test_lengths_end_where_positions_end() -> None:
    given = setup("paging")
    limits = replace(given.limits, max_model_len=MODEL.max_position_embeddings + 1)
    why = refusal(replace(given, limits=limits), "cpu")
    assert (
        why == "--max-model-len 129: tiny has rotations for 128 positions; expected at most as many"
    )


def test_nothing_is_allocated_for_what_is_refused() -> None:
    machine = open_machine("cpu")
    with pytest.raises(InputError, match=r"--policy virtual\+int8: virtual with int8"):
        Executor(setup("virtual+int8"), machine, random_llama(MODEL, machine))


def test_doctor_quotes_them() -> None:
    found = findings("cpu")
    said = [(one.what, one.why) for one in (next(found) for _ in range(3 + len(REFUSALS)))]
    for one in REFUSALS:
        assert ("simulated, not executed", f"{one.what}: {one.why}") in said


def test_doctor_prints_what_it_finds_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = []

    def two(_: str | None) -> Iterator[Finding]:
        yield Finding("first", True, "because")
        said.append(capsys.readouterr().out)
        yield Finding("second", False, "so")

    monkeypatch.setattr(doctor, "findings", two)
    assert doctor.examine(None) == 1
    assert said[0].split() == ["ok", "first", "because"]
    assert capsys.readouterr().out.split() == ["FAILS", "second", "so"]


def test_readme_quotes_them() -> None:
    text = " ".join(Path("README.md").read_text(encoding="utf-8").replace("`", "").split())
    assert "; ".join(one.what for one in REFUSALS) in text


@dataclass(frozen=True)
class Strange(Placement):
    """Whatever the executor first asks of its manager beyond its longest request fails."""

    def place(self, pool: Pool, retained: Retained) -> Manager:
        return Odd(pool, 4)


class Odd(Pages):
    def table(self) -> Table:
        raise KeyError("gone")


def test_what_a_strangers_policy_raises_is_one_line() -> None:
    """In `validate`, too, where it first breaks as the simulated run goes on."""
    odd = replace(setup("paging"), policy=Strange(), label="odd")
    said = r"KeyError: 'gone' \(test_refusals.py, line \d+\)$"
    assert re.match(said, refusal(odd, "cpu") or "")
    machine = open_machine("cpu")
    llama = random_llama(odd.model, machine)
    with pytest.raises(InputError, match=f"^--policy odd: {said}"):
        validate(odd, machine, llama, 1)
