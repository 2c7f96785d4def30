"""Malformed variants of a good file, the same for the same seed."""

import json
import math
import os
import random
from typing import Any

import pyarrow as pa

CASES = int(os.environ.get("FUZZ_CASES", "20"))
"""Variants a reader and kind of file; `make fuzz` runs 300."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**30, 10**400, 0.5, -0.0,
    1e300, 1e-300, float("nan"), float("inf"), "", "x", "12", "\x1b[31m", "\ud800", "</script>",
    "a" * 5000, [], [[]], [1, "x"], {}, {"a": {}}, [None],
)  # fmt: skip
SPLICES = (
    b"", b"\0", b"\n", b"\r", b'"', b"'", b",", b"{", b"}", b"[", b"]", b"\xff", b"\xef\xbb\xbf",
    b"\xe2\x80\xa8", b"\xc2\xa0", b"NaN", b"Infinity", b"-", b"1e999", b"9" * 50, b"9" * 5000,
    b"null", b"true", b'"\\ud800"', b"[" * 3000, b'{"a":' * 3000, b"0x10", b"1_0", b"\t", b"\\",
)  # fmt: skip


def bytes_of(good: bytes, rng: random.Random) -> bytes:
    """The file with a few cuts, splices, swaps or repetitions."""
    content = good
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(content) + 1)
        until = min(len(content), at + rng.choice((0, 0, 1, 2, 5, 20)))
        match rng.randrange(6):
            case 0:
                content = content[:at]
            case 1 | 2:
                content = content[:at] + rng.choice(SPLICES) + content[until:]
            case 3:
                content = content[:at] + content[until:]
            case 4:
                content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
            case _:
                content = content[:at] + content[at:until] * 3 + content[until:]
    return content


def json_of(good: Any, rng: random.Random) -> bytes:
    """The document with a value, a key or an element of it changed."""
    content = json.loads(json.dumps(good))
    places = list(_places(content))
    for _ in range(rng.choice((1, 1, 2))):
        holder, key = rng.choice(places)
        match rng.randrange(4):
            case 0:
                if isinstance(holder, dict):
                    holder.pop(key, None)
                elif len(holder) > key:
                    del holder[key]
            case 1:
                if isinstance(holder, list):
                    holder.append(rng.choice(VALUES))
                else:
                    holder[str(rng.choice(VALUES))[:50]] = rng.choice(VALUES)
            case _:
                if isinstance(holder, dict) or len(holder) > key:
                    holder[key] = rng.choice(VALUES)
    return json.dumps(content).encode()


def _places(value: Any) -> Any:
    """Every holder and the key or position in it, but for the far ends of long lists."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield value, key
            yield from _places(part)
    elif isinstance(value, list):
        for number, part in enumerate(value[:3]):
            yield value, number
            yield from _places(part)


def column(rng: random.Random, rows: int) -> pa.Array:
    """A column of another kind than it should be."""
    kinds = (
        [None] * rows, [True] * rows, ["x"] * rows, [1.5] * rows, [math.nan] * rows, [-1] * rows,
        [0] * rows, [2**62] * rows, [[1]] * rows, [{"a": 1}] * rows, [b"\xff"] * rows,
    )  # fmt: skip
    if rng.random() < 0.3:
        kind = rng.choice((pa.date32(), pa.time32("s"), pa.decimal128(10), pa.uint32()))
        return pa.array([1] * rows, pa.int32()).cast(kind)
    return pa.array(rng.choice(kinds))


def spoiled(table: pa.Table, rng: random.Random) -> pa.Table:
    """The table without a column or rows, or with one that is of another kind."""
    name = rng.choice(table.column_names)
    at = table.column_names.index(name)
    match rng.randrange(4):
        case 0:
            return table.drop_columns([name])
        case 1:
            return table.rename_columns({name: "other"})
        case 2:
            return table.slice(0, rng.randrange(table.num_rows))
        case _:
            return table.set_column(at, name, column(rng, table.num_rows))


def seeds(kind: str) -> list[random.Random]:
    """A source of chance for each case."""
    return [random.Random(f"{kind} {number}") for number in range(CASES)]
