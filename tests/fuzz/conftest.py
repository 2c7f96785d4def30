"""How many variants each reader took and refused, told at the end of a long run."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.fuzz.mutate import CASES
from workloads.errors import InputError
from workloads.outgoing import visible

Outcome = Callable[[Callable[[], Any]], Any]


@pytest.fixture
def outcome(record_property: Callable[[str, object], None]) -> Iterator[Outcome]:
    """What was read, or None where it was refused in one line."""
    counts: Counter[str] = Counter()

    def of(read: Callable[[], Any]) -> Any:
        try:
            found = read()
        except InputError as error:
            said = str(error)
            counts["refused"] += 1
            assert len(visible(said)) > 10
            assert "\n" not in said, said
            return None
        counts["accepted"] += 1
        return found

    yield of
    record_property("fuzzed", f"{counts['refused']} refused, {counts['accepted']} accepted")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if CASES < 100:
        return
    for report in terminalreporter.stats.get("", []):
        for name, value in report.user_properties:
            if name == "fuzzed":
                terminalreporter.write_line(f"{report.nodeid.partition('::')[2]}: {value}")
