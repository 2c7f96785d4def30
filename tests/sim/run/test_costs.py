"""Cost models that packages bring by entry point: used by name, and a note where they're broken."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.run import costs
from sim.run.simulation import simulate
from workloads.errors import InputError
from workloads.synthetic import generate

CODE = """
from dataclasses import dataclass
from sim.cost.roofline import FixedStep

@dataclass(frozen=True)
class Slow:
    seconds: float = 2.0
    def model(self, setup):
        return FixedStep(self.seconds, "made up")

NUMBER = 7
"""
POINTS = """[kvtwin.costs]
slow = kv_slow:Slow
absent = kv_gone:Gone
number = kv_slow:NUMBER
fixed = kv_slow:Slow
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    info = tmp_path / "kv_slow-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kv-slow\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    (tmp_path / "kv_slow.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    costs._installed.cache_clear()
    yield
    costs._installed.cache_clear()


def makespan(cost: str) -> float:
    run = simulate(
        generate(1, 1.0, prompt="4", output="3"), model="llama-2-7b", gpu="a100-40gb", cost=cost
    )
    found = run["makespan_s"]
    assert found is not None
    return float(found)


def test_a_package_adds_a_cost_model_and_broken_ones_hide_nothing() -> None:
    """Three tokens are three steps: of 2 s by default, of the half second asked for, and of the
    built-in name's own 30 ms."""
    assert makespan("slow") == pytest.approx(6)
    assert makespan("slow:seconds=0.5") == pytest.approx(1.5)
    assert makespan("fixed") == pytest.approx(0.09)
    absent, number, fixed = costs.cost_notes()
    assert absent.startswith("plug-in absent (kv_gone:Gone): ModuleNotFoundError: No module named")
    assert number.startswith("plug-in number (kv_slow:NUMBER): expected a class of options")
    assert fixed == "plug-in fixed: the name is built in, and stays so"


def test_a_name_that_a_broken_package_would_have_brought_says_why() -> None:
    with pytest.raises(InputError, match=r"plug-in absent .* No module named 'kv_gone'"):
        makespan("absent")
