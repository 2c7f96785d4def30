"""Calendar time stamps: `2023-11-16 18:17:03.9799600`, with or without a UTC offset."""

import re
from datetime import date, time

PATTERN = (
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{1,9})?"
    r"(?P<offset>Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
)
"""Of a stamp, in the language of both Python and RE2."""

FIRST_YEAR, LAST_YEAR = 1678, 2261
"""Whole years that nanoseconds of 64 bits reach from 1970."""

_STAMP = re.compile(PATTERN)


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
