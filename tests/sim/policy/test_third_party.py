"""The package that docs/adding-a-policy.md shows, installed and run in another process."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "adding-a-policy.md"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the page's module and the metadata that an installer would write."""
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = next(text for text in blocks if "class " in text)
    points = next(text for text in blocks if "kvtwin.policies" in text and "=" in text)
    section, *lines = points.strip().splitlines()
    assert section == '[project.entry-points."kvtwin.policies"]'
    (tmp_path / "kv_halves.py").write_text(module)
    info = tmp_path / "kv_halves-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kv-halves\nVersion: 1.0\n")
    entries = "\n".join(line.replace('"', "") for line in lines)
    (info / "entry_points.txt").write_text(f"[kvtwin.policies]\n{entries}\n")
    return tmp_path


def run(folder: Path, code: str) -> str:
    path = os.pathsep.join([str(folder), str(PAGE.parents[1])])
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_an_installed_package_adds_a_placement_and_a_storage(installed: Path) -> None:
    """Its names are listed, take options, compose with built-in ones and run."""
    code = """
from sim.policy.registry import parse_policy, policies
from sim.policy.manager import Pool
from sim.sequence import Sequence
assert {"halves", "int2"} <= set(policies())
manager = parse_policy("halves:share=0.25").manager(Pool(100, 1, 50))
seq = Sequence(0, 0, 20, 1)
assert manager.can_admit(seq)
manager.admit(seq)
manager.extend(seq, 20)
manager.check_integrity()
print(*manager.memory())
"""
    assert run(installed, code) == "20 0 5 0 0 75"  # a quarter of 100 is 25 slots


def test_a_third_party_storage_wraps_a_built_in_placement(installed: Path) -> None:
    code = """
from sim.memory.ledger import kv_budget
from sim.hardware import find_device
from sim.model.presets import find_model
from sim.policy.registry import parse_policy
pool = kv_budget(find_model("llama-3-8b"), find_device("a100-80gb")).pool()
print(parse_policy("paging:block_size=16+int2:group=64").manager(pool).pool.token_bytes)
"""
    # 65,536 elements of 2 bits, and for each 64 a 16-bit scale
    assert run(installed, code) == str(65_536 // 4 + 65_536 // 64 * 2)


def test_built_in_names_cannot_be_taken_over(installed: Path) -> None:
    """Neither where a policy is named nor in the listing, though a package claims `paging`."""
    points = installed / "kv_halves-1.0.dist-info" / "entry_points.txt"
    points.write_text("[kvtwin.policies]\npaging = kv_halves:Halves\n")
    code = """
from sim.policy.paging import Paging
from sim.policy.registry import parse_policy, policies
print(policies()["paging"] is Paging, type(parse_policy("paging")) is Paging)
"""
    assert run(installed, code) == "True True"
