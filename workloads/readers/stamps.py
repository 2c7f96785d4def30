"""Calendar time stamps: `2023-11-16 18:17:03.9799600`, with or without a UTC offset."""

import re
from datetime import date, time

_STAMP = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[ T](?P<time>\d\d:\d\d:\d\d)(\.\d{1,9})?"
    r"(?P<offset>Z|[+-]\d\d(:?\d\d)?)?"
)


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
        date.fromisoformat(match["date"])
        time.fromisoformat(match["time"])
    except ValueError:
        return False
    return True
