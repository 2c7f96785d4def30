"""A format that the user describes: which columns hold what, in which unit."""

from typing import get_args

from workloads.errors import InputError
from workloads.readers.format import Arrival, Elapsed, Thread, TraceFormat, Unit

UNITS: dict[str, Unit] = {"iso": "stamp", **{unit: unit for unit in get_args(Unit)}}
NEEDED = ("arrival", "prompt", "output")
OTHERS = ("hash_ids", "session", "elapsed")


def parse_columns(text: str) -> TraceFormat:
    """`arrival=startTime:iso,prompt=prompt_tokens,output=completion_tokens[,hash_ids=blocks:16]`.

    The unit of arrivals is iso (a calendar time), s, ms, us or ns; without one it is s. Prefix
    blocks need their size in tokens. `session=NAME` makes rows of one name follow each other's
    answers, `elapsed=NAME:UNIT` says how long an answer took. Nested fields of JSON are named by
    their path, `usage.input`. Raises InputError.
    """
    named: dict[str, str] = {}
    for pair in text.split(","):
        role, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column or role not in (*NEEDED, *OTHERS):
            raise InputError(
                f"--columns {text}: {pair!r}, expected arrival=NAME:UNIT,prompt=NAME,output=NAME"
            )
        if role in named:
            raise InputError(f"--columns {text}: {role} is given twice")
        named[role] = column
    if missing := [role for role in NEEDED if role not in named]:
        raise InputError(f"--columns {text}: lacks {missing[0]}, expected {missing[0]}=NAME")
    arrival = Arrival(*_timed(named["arrival"], text, tuple(UNITS)))
    thread = None
    if "session" in named:
        took = named.get("elapsed")
        durations = tuple(unit for unit in UNITS if unit not in ("iso", "stamp"))
        elapsed = None if took is None else Elapsed(*_timed(took, text, durations))
        thread = Thread(named["session"], elapsed=elapsed)
    elif "elapsed" in named:
        raise InputError(f"--columns {text}: elapsed is of sessions, expected session=NAME too")
    blocks, size = _suffixed(named["hash_ids"]) if "hash_ids" in named else (None, "")
    if blocks is not None and not (size.isascii() and size.isdigit() and 0 < int(size) < 2**31):
        raise InputError(f"--columns {text}: expected hash_ids=NAME:TOKENS, the size of a block")
    return TraceFormat(
        name="columns",
        arrival=arrival,
        prompt=named["prompt"],
        output=named["output"],
        hash_ids=blocks,
        block_tokens=int(size) if blocks else None,
        failed_rows=True,
        thread=thread,
        marks=tuple(named[role] for role in ("session",) if role in named),
    )


def _timed(given: str, text: str, units: tuple[str, ...]) -> tuple[str, Unit]:
    """A column and its unit."""
    column, unit = _suffixed(given)
    if unit and unit not in units:
        raise InputError(f"--columns {text}: unit {unit!r}, expected one of: {', '.join(units)}")
    return column, UNITS[unit or "s"]


def _suffixed(text: str) -> tuple[str, str]:
    """A column's name and what follows its last colon."""
    name, colon, suffix = text.rpartition(":")
    return (name, suffix) if colon else (text, "")
