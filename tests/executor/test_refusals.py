"""What is not executed is said in one place, and everybody quotes it."""

from dataclasses import replace
from pathlib import Path

import pytest

from executor.device.assemble import Executor, random_llama
from executor.device.machine import open_machine
from executor.device.refusals import REFUSALS, refusal
from executor.health.doctor import findings
from sim.engine.limits import Pressure
from sim.run.simulation import Setup
from tests.executor.test_layer_windows import setup as windowed
from tests.executor.test_policies_agree import MODEL, setup
from workloads.errors import InputError

SHARED = "paging:block_size=8,layers=capped+prefix"


def swapping(given: Setup) -> Setup:
    return replace(given, limits=replace(given.limits, pressure=Pressure("swap", 1 << 30)))


def ahead(given: Setup) -> Setup:
    rules = replace(given.limits.rules, async_scheduling=True)
    return replace(given, limits=replace(given.limits, rules=rules))


CASES = {
    "preallocation+top_k:k=64,page=8": (setup("preallocation+top_k:k=64,page=8"), "cpu", 0),
    "other pages": (setup("paging:block_size=16+top_k:k=64,page=8"), "cpu", 0),
    "virtual+int8": (setup("virtual+int8"), "cpu", 1),
    "virtual+int4": (setup("virtual+int4:group=4"), "cpu", 1),
    "virtual+top_k": (setup("virtual+top_k:k=64,mode=evict"), "cpu", 1),
    "virtual on a GPU": (setup("virtual"), "cuda", 2),
    "ahead": (ahead(setup("paging")), "cpu", 3),
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
    ["virtual", "virtual+fp8", "paging:block_size=8+top_k:k=64,page=8", "preallocation+int8"],
)
def test_what_is_near_is_not(policy: str) -> None:
    assert refusal(setup(policy), "cpu") is None
    assert refusal(windowed(SHARED), "cpu") is None
    assert refusal(swapping(windowed(SHARED, batching="static")), "cpu") is None


def test_nothing_is_allocated_for_what_is_refused() -> None:
    machine = open_machine("cpu")
    with pytest.raises(InputError, match=r"--policy virtual\+int8: virtual with int8"):
        Executor(setup("virtual+int8"), machine, random_llama(MODEL, machine))


def test_doctor_quotes_them() -> None:
    found = findings("cpu")
    said = [(one.what, one.why) for one in (next(found) for _ in range(3 + len(REFUSALS)))]
    for one in REFUSALS:
        assert ("simulated, not executed", f"{one.what}: {one.why}") in said


def test_readme_quotes_them() -> None:
    text = " ".join(Path("README.md").read_text(encoding="utf-8").replace("`", "").split())
    assert "; ".join(one.what for one in REFUSALS) in text
