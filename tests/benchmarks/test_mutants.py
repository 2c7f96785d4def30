"""Mutants are tried by `make mutants`; that each has its place and its test is seen here."""

import re

import pytest

from benchmarks.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_its_place_stands_once_and_its_test_is_there(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) == 1
    file, _, test = mutant.test.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not test or re.search(rf"^def {test.partition('[')[0]}\(", text, re.MULTILINE)
