"""The gates: one dialect of JSON, columns of a kind, texts that are shown and not obeyed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workloads.columns import read_columns
from workloads.errors import InputError
from workloads.incoming import csv_rows, parse_json, read_bytes, read_json, read_json_lines
from workloads.outgoing import encodable, visible, visible_in


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[NaN]", "NaN is no number"),
        (b"[-Infinity]", "-Infinity is no number"),
        (b"[1e400]", "larger than any"),
        (b"[" + b"1" * 41 + b"]", "a number of 41 digits, expected at most 40"),
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' is there twice"),
        (b"[" * 65 + b"]" * 65, "nested too deep"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "nested too deep"),
        (b'["\\"", ' + b"[" * 65 + b"]" * 66, "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
        (b"\xff", "is not UTF-8"),
        (b'{"a": 1', "at column 8"),
        (b"", "Expecting value"),
    ],
)
def test_what_is_no_json_here(content: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|UTF-8|number") as caught:
        parse_json(content)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "value"),
    [
        (b'\xef\xbb\xbf{"a": [1, 2.5, null, true]}', {"a": [1, 2.5, None, True]}),
        (b"[" * 64 + b"]" * 64, None),
        (b'["' + b"[" * 1000 + b'"]', ["[" * 1000]),
        (b'["\xe2\x80\xa8"]', ["\u2028"]),
        (b'["\\ud800"]', ["\ufffd"]),
        (b'["\\ud83d\\ude00"]', ["\U0001f600"]),
        (b'["' + b"7" * 50 + b'"]', ["7" * 50]),
    ],
)
def test_what_is(content: bytes, value: Any) -> None:
    found = parse_json(content)
    assert value is None or found == value


def test_a_line_ends_with_a_line_feed_alone(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b'{"a": "x\xe2\x80\xa8y"}\r\n\n{"a": "\xc2\x85"}')
    assert read_json_lines(tmp_path / "f") == [{"a": "x\u2028y"}, {"a": "\x85"}]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b" " * 2000)
    with pytest.raises(InputError, match="larger than 0 MiB"):
        read_bytes(tmp_path / "large", most=1000)
    with pytest.raises(InputError, match="Is a directory"):
        read_json(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_json(tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a\n1\n", "no column 'b'"),
        ("a,b,a\n1,2,3\n", "more than one column 'a'"),
        ("a,b\n1,2\n3\n", "line 3: has 1 fields, expected 2"),
        ("a,b\n1,2,3\n", "line 2: has 3 fields"),
    ],
)
def test_csv(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(InputError) as caught:
        list(csv_rows(tmp_path / "f", ("a", "b")))
    assert said in str(caught.value)


def test_csv_of_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a,b\n1,2\n", encoding="utf-16")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        list(csv_rows(tmp_path / "f", ("a", "b")))


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array(["x", "y"]), "expected whole numbers, found type string"),
        (pa.array([1, None]), "found 1 nulls"),
        (pa.array([1.5, 2.0]), "found type double"),
        (pa.array([True, False]), "found type bool"),
        (pa.array([2**64 - 1, 1], pa.uint64()), "below 2^63"),
        (pa.array([[1], [2]]), "found type list"),
        (pa.array([1, 2], pa.decimal128(5)), "found type decimal"),
        (pa.array([1, 2], pa.date32()), "found type date32"),
    ],
)
def test_columns(tmp_path: Path, column: pa.Array, said: str) -> None:
    pq.write_table(pa.table({"n": column}), tmp_path / "f")
    with pytest.raises(InputError) as caught:
        read_columns(tmp_path / "f", {"n": "whole"}, "a table")
    assert said in str(caught.value)


def test_texts_that_go_out() -> None:
    assert visible("a\x1b[31mb\nc\x7f\x9b\u202e\u2028") == (
        "a\\u001b[31mb\\u000ac\\u007f\\u009b\\u202e\\u2028"
    )
    assert visible("caf\udce9 \ud800") == "caf\\xe9 \\ud800"
    assert visible("Größe 模型 🙂") == "Größe 模型 🙂"
    assert encodable("a\nb\udce9") == "a\nb\\xe9"
    assert visible_in({"\x1b": ["\x07", 1, None]}) == {"\\u001b": ["\\u0007", 1, None]}
