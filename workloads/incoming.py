"""The one gate for files that come in: bytes, text, JSON and CSV, checked before anyone reads them.

JSON has one dialect everywhere: UTF-8 (a byte order mark is let through), nested at most DEEPEST
levels, each key once, finite numbers of at most LONGEST_NUMBER digits. What is behind the gate sees
plain values of the shape it asked for; everything else is an InputError of one line.
"""

import csv
import json
import math
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from workloads.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    Model = TypeVar("Model", bound=BaseModel)

MOST_BYTES = 1 << 28
DEEPEST = 64
LONGEST_NUMBER = 40
_LONGEST_FIELD = 1 << 30

_ESCAPED = re.compile(rb"\\.", re.DOTALL)
_DIGITS_ALIKE = bytes.maketrans(b"123456789E", b"000000000e")
_UNUSUAL_NUMBERS = (b"0" * (LONGEST_NUMBER + 1), b"e000", b"e+000")
"""With digits alike: too long, or an exponent of three digits that may be beyond a double."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_OUTSIDE = bytes(code for code in range(256) if code not in b'[]{}"')
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LONE = re.compile("[\ud800-\udfff]")


def read_bytes(file: Path, label: str | None = None, most: int = MOST_BYTES) -> bytes:
    """The file's content, if it is a file of at most so many bytes."""
    where = label or str(file)
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError as error:
        raise InputError(f"{where}: {error.strerror or error}") from None
    if len(content) > most:
        raise InputError(f"{where}: is larger than {most >> 20:,} MiB, expected less")
    return content


def decoded(content: bytes, where: str) -> str:
    """The text of UTF-8, without its byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: is not UTF-8 text ({error.reason})") from None


def read_json(file: Path, label: str | None = None, most: int = MOST_BYTES) -> Any:
    """The file's JSON."""
    where = label or str(file)
    try:
        return parse_json(read_bytes(file, where, most))
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


def read_json_lines(file: Path, label: str | None = None, most: int = MOST_BYTES) -> list[Any]:
    """The JSON of each line that isn't blank. A line ends with a line feed and nothing else."""
    where = label or str(file)
    rows = []
    for number, line in enumerate(read_bytes(file, where, most).split(b"\n"), 1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except ValueError as error:
                raise InputError(f"{where}: line {number}: {error}") from None
    return rows


def parse_json(content: bytes) -> Any:
    """The value. Raises ValueError saying what it breaks of the dialect."""
    if _is_deep(content):
        raise ValueError(f"not JSON: nested too deep, expected at most {DEEPEST} levels")
    decoder = _DECODER
    alike = content.translate(_DIGITS_ALIKE)
    if any(unusual in alike for unusual in _UNUSUAL_NUMBERS):
        decoder = _CAREFUL_DECODER
    try:
        text = content.decode("utf-8-sig")
        value = decoder.decode(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 text ({error.reason})") from None
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if error.lineno > 1 else ""
        raise ValueError(f"not JSON: {error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise ValueError("not JSON: nested too deep") from None
    return _whole_text(value) if _SURROGATE.search(content) else value


def _is_deep(content: bytes) -> bool:
    if content.count(b"[") + content.count(b"{") <= DEEPEST:
        return False
    if b"\\" in content:
        content = _ESCAPED.sub(b"", content)
    marks = content.translate(_BRACKETS, _OUTSIDE)
    # between quotes brackets are text
    left = b"".join(marks.split(b'"')[::2])
    for _ in range(DEEPEST):
        fewer = left.replace(b"[]", b"")
        if len(fewer) == len(left):
            break
        left = fewer
    return left.count(b"[") > 0 and (b"[]" in left or left.count(b"[") > DEEPEST)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"not JSON: the key {shown(twice)} is there twice")
    return found


def _refused(word: str) -> float:
    raise ValueError(f"not JSON: {word} is no number, expected null or a finite one")


def _whole(text: str) -> int:
    digits = text.lstrip("-")
    if len(digits) > LONGEST_NUMBER:
        raise ValueError(f"a number of {len(digits)} digits, expected at most {LONGEST_NUMBER}")
    return int(text)


def _finite(text: str) -> float:
    if math.isinf(float(text)):
        raise ValueError(f"the number {shown(text)} is larger than any that can be kept")
    return float(text)


def _whole_text(value: Any) -> Any:
    """The value with halves of surrogate pairs replaced: no file and no page can hold them."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_text(part) for part in value]
    if isinstance(value, dict):
        return {_whole_text(key): _whole_text(part) for key, part in value.items()}
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_refused)
_CAREFUL_DECODER = json.JSONDecoder(
    object_pairs_hook=_once, parse_constant=_refused, parse_int=_whole, parse_float=_finite
)
"""Made once: a million lines are parsed one by one."""


def checked(model: "type[Model]", content: Any, where: str) -> "Model":
    """The content as the model describes it. Raises InputError naming the first field at fault."""
    from pydantic import ValidationError  # late: it takes a third of the start

    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{where}: {fault(error)}") from None


def fault(error: "ValidationError") -> str:
    """The first field at fault, what is wrong with it, and what was found, in one line."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    found = first["input"]
    if first["type"] != "missing" and isinstance(found, str | int | float | bool | None):
        message += f", found {shown(found)}"
    return f"{field or 'the whole'}: {message}"


def shown(value: Any) -> str:
    """A value as a message shows it: quoted, and of a bounded length."""
    text = f"{value:.6e}" if isinstance(value, int) and abs(value) > 10**18 else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether it is one in JSON: true and false are none."""
    return type(value) in (int, float)


def number_in(text: str) -> float:
    """The number that a table's field says in plain digits (`1_0` is none); NaN for none."""
    found = text.strip()
    return float(found) if _NUMBER.fullmatch(found) else math.nan


def csv_rows(file: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and fields by column, of a CSV file that has these columns and maybe others.

    Every row has as many fields as the header.
    """
    lines = StringIO(decoded(read_bytes(file), str(file)), newline="")
    csv.field_size_limit(_LONGEST_FIELD)
    reader = csv.reader(lines)
    try:
        header = next(reader, [])
        for column in columns:
            if header.count(column) != 1:
                times = "no" if column not in header else "more than one"
                raise InputError(f"{file}: {times} column {column!r}, expected one")
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise InputError(
                    f"{file}: line {reader.line_num}: has {len(fields)} fields, expected "
                    f"{len(header)} as in the header"
                )
            yield reader.line_num, dict(zip(header, fields, strict=True))
    except csv.Error as error:
        raise InputError(f"{file}: line {reader.line_num}: {error}") from None
