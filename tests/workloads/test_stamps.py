"""Calendar stamps that Python reads without Arrow's functions: the same nanoseconds, or none."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from workloads.readers.stamps import plain_nanoseconds

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_nanoseconds_are_the_calendars() -> None:
    """Microseconds by Python's own calendar, and the digits that it hasn't."""
    draw = np.random.default_rng(3)
    texts, expected = [], []
    for _ in range(500):
        microseconds = int(draw.integers(-9 * 10**15, 9 * 10**15))
        rest, mark = int(draw.integers(0, 1000)), " T"[int(draw.integers(2))]
        moment = EPOCH + timedelta(microseconds=microseconds)
        texts.append(f"{moment:%Y-%m-%d}{mark}{moment:%H:%M:%S.%f}{rest:03}")
        expected.append(1000 * microseconds + rest)
    found = plain_nanoseconds(texts)
    assert found is not None
    assert found.tolist() == expected


def test_fewer_digits_are_larger_units() -> None:
    second = 10**9
    found = plain_nanoseconds(["1970-01-01 00:00:01", "1970-01-02T00:00:00.5"])
    assert found is not None
    assert found.tolist() == [second, 86_400 * second + second // 2]


@pytest.mark.parametrize(
    "text",
    [
        "2023-02-29 00:00:00",
        "2023-01-01 24:00:00",
        "2023-01-01 00:00:60",
        "2023-01-01 00:00:00Z",
        "2023-01-01 00:00:00+01:00",
        "2023-01-01 00:00:00.1234567891",
        "2023-01-01",
        " 2023-01-01 00:00:00",
        "1677-12-31 00:00:00",
        "2262-01-01 00:00:00",
        "2023-01-01 00:00:00\n2023-01-01 00:00:00",
        "",
    ],
)
def test_anything_else_is_left_to_arrow(text: str) -> None:
    fine = "2023-01-01 00:00:00"
    assert plain_nanoseconds([fine, text]) is None
    assert plain_nanoseconds([]) is None
