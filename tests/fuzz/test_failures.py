"""Every failure of old has its tests, and they are there."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.fuzz.failures import FAILURES

ROOT = Path(__file__).parents[2]


@cache
def names_in(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(part.name for part in tree.body if isinstance(part, ast.FunctionDef))


def test_none_is_left_out() -> None:
    assert list(FAILURES) == list(range(1, 40))
    assert all(said and tests for said, tests in FAILURES.values())


@pytest.mark.parametrize("test", sorted({test for _, tests in FAILURES.values() for test in tests}))
def test_it_is_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert name.startswith("test_")
    assert name in names_in(file)


def test_cases_of_files_name_their_failure() -> None:
    """One test stands for the files of many failures; each has cases of its own."""
    from tests.e2e.test_malformed_files import CASES

    named = {int(case.partition(":")[0]) for case in CASES}
    expected = {
        number for number, (_, tests) in FAILURES.items()
        if "tests/e2e/test_malformed_files.py::test_it_is_one_line" in tests
    }  # fmt: skip
    assert named == expected
