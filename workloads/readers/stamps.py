"""Calendar time stamps: `2023-11-16 18:17:03.9799600`, with or without a UTC offset."""

import re
from collections.abc import Sequence
from datetime import date, time

import numpy as np

from workloads.schema import Ints

PATTERN = (
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?"
    r"(?P<offset>Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)
"""Of a stamp, in the language of both Python and RE2."""

FIRST_YEAR, LAST_YEAR = 1678, 2261
"""Whole years that nanoseconds of 64 bits reach from 1970."""

_STAMP = re.compile(PATTERN)
_PLAIN = re.compile(
    r"(?:[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}(?::[0-9]{2}){2}(?:\.[0-9]{1,9})?\n)+"
)
"""Stamps without offsets, a line each."""


def has_offset(text: str) -> bool:
    """True where the stamp names its zone. False also for what is no stamp at all."""
    match = _STAMP.fullmatch(text.strip())
    return match is not None and match["offset"] is not None


def is_stamp(text: str) -> bool:
    """True for a stamp of an existing day and time, to at most 9 digits of a second."""
    match = _STAMP.fullmatch(text)
    if match is None:
        return False
    try:
        year = date.fromisoformat(match["date"]).year
        time.fromisoformat(match["time"])
    except ValueError:
        return False
    return FIRST_YEAR <= year <= LAST_YEAR


def plain_nanoseconds(texts: Sequence[str]) -> Ints | None:
    """Since 1970, of stamps without offsets; None where any is another thing, or there are none."""
    lines = "".join(f"{text}\n" for text in texts)
    if lines.count("\n") != len(texts) or not _PLAIN.fullmatch(lines):
        return None
    if not (f"{FIRST_YEAR}" <= min(texts)[:4] and max(texts)[:4] <= f"{LAST_YEAR}"):
        return None
    try:
        return np.array(texts, dtype="datetime64[ns]").view(np.int64)
    except ValueError:  # no such day or time
        return None
