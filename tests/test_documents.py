"""What the documents say of the tree is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADDING = ("docs/adding-a-policy.md", "docs/adding-a-cost-model.md")
PACKAGES = ("kvtwin", "executor", "sim", "reports", "workloads")


def test_the_map_is_the_tree() -> None:
    """DESIGN.md names every package, and none that is gone."""
    text = (ROOT / "DESIGN.md").read_text()
    block = next(b for b in re.findall(r"```\n(.*?)```", text, re.DOTALL) if "kvtwin  " in b)
    mapped = [line.split()[0] for line in block.splitlines()]
    found = [
        str(file.parent.relative_to(ROOT))
        for package in PACKAGES
        for file in (ROOT / package).rglob("__init__.py")
    ]
    assert sorted(mapped) == sorted(found)


def test_files_that_documents_name_are_there() -> None:
    """Every path in backticks, in DESIGN.md, CONTRIBUTING.md and the pages on adding."""
    for page in ("DESIGN.md", "CONTRIBUTING.md", *ADDING):
        for path in re.findall(
            r"`((?:sim|executor|reports|workloads|tests|benchmarks|docs)/[\w./-]+)`",
            (ROOT / page).read_text(),
        ):
            assert (ROOT / path).exists(), f"{page}: {path}"


def test_contributors_and_the_policy_page_name_the_same_lists() -> None:
    named = []
    for page in ("CONTRIBUTING.md", "docs/adding-a-policy.md"):
        lists = re.findall(
            r"`((?:tests/sim|sim/policy/laws)[\w/]*\.py)`", (ROOT / page).read_text()
        )
        named.append({path for path in lists if "metrics" not in path})
    assert named[0] == named[1]
    assert named[0] == {"sim/policy/laws.py", "tests/sim/specs.py"}


def test_every_package_is_typed() -> None:
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").exists(), package
