"""A format that the user describes: which columns hold what, in which unit."""

from typing import get_args

from workloads.errors import InputError
from workloads.readers.format import Arrival, TraceFormat, Unit

UNITS: dict[str, Unit] = {"iso": "stamp", **{unit: unit for unit in get_args(Unit)}}
NEEDED = ("arrival", "prompt", "output")


def parse_columns(text: str) -> TraceFormat:
    """`arrival=startTime:iso,prompt=prompt_tokens,output=completion_tokens[,hash_ids=blocks:16]`.

    The unit of arrivals is iso (a calendar time), s, ms, us or ns; without one it is s. Prefix
    blocks need their size in tokens. Nested fields of JSON are named by their path, `usage.input`.
    Raises InputError.
    """
    named: dict[str, str] = {}
    for pair in text.split(","):
        role, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column or role not in (*NEEDED, "hash_ids"):
            raise InputError(
                f"--columns {text}: {pair!r}, expected arrival=NAME:UNIT,prompt=NAME,output=NAME"
            )
        if role in named:
            raise InputError(f"--columns {text}: {role} is given twice")
        named[role] = column
    if missing := [role for role in NEEDED if role not in named]:
        raise InputError(f"--columns {text}: lacks {missing[0]}, expected {missing[0]}=NAME")
    column, unit = _suffixed(named["arrival"])
    if unit and unit not in UNITS:
        raise InputError(f"--columns {text}: unit {unit!r}, expected one of: {', '.join(UNITS)}")
    blocks, size = _suffixed(named["hash_ids"]) if "hash_ids" in named else (None, "")
    if blocks is not None and not (size.isascii() and size.isdigit() and 0 < int(size) < 2**31):
        raise InputError(f"--columns {text}: expected hash_ids=NAME:TOKENS, the size of a block")
    return TraceFormat(
        name="columns",
        arrival=Arrival(column, UNITS[unit or "s"]),
        prompt=named["prompt"],
        output=named["output"],
        hash_ids=blocks,
        block_tokens=int(size) if blocks else None,
        failed_rows=True,
    )


def _suffixed(text: str) -> tuple[str, str]:
    """A column's name and what follows its last colon."""
    name, colon, suffix = text.rpartition(":")
    return (name, suffix) if colon else (text, "")
