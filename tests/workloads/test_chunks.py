"""Bad rows are found by chunks of lines, and named as a walk from the first row would."""

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from workloads import InputError, read_trace
from workloads.readers import chunks, fault
from workloads.readers.detect import choose, select
from workloads.readers.format import Rejected
from workloads.readers.source import open_source

Row = tuple[object, object, object]
NAMES = ("arrival_s", "prompt_tokens", "output_tokens")
ODD: tuple[Row, ...] = ((5, "10.0", 3), (5, " 7", 2), ("1e1", 7, 0))
"""Taken from CSV, the longer way."""
BAD: tuple[Row, ...] = ((5, "ten", 3), (5, 0, 3), (-1, 7, 3), (5, 7, -3), (5, 2**63, 1), ("", 1, 1))


def as_csv(rows: list[Row]) -> str:
    return ",".join(NAMES) + "\n" + "".join(f"{a},{p},{o}\n" for a, p, o in rows)


def as_lines(rows: list[Row]) -> str:
    return "".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of some rows, so that files of some dozens have many."""
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", 150)
    monkeypatch.setattr(chunks, "_NEAR_BYTES", 30)
    monkeypatch.setattr(fault, "_FIRST_ROWS", 3)


def walked(path: Path) -> str:
    """The error of the careful path from the first row on."""
    source = open_source(path, str(path))
    return str(fault.locate(source, select(source, choose(source, None, None), None), Rejected()))


def blank_lines(text: str, rng: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(line + "\n" * (rng.random() < 0.1) for line in lines)


@pytest.mark.parametrize("write", [as_csv, as_lines])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_the_first_bad_row_is_named(
    tmp_path: Path, small: None, write: Callable[[list[Row]], str], packed: bool
) -> None:
    path = tmp_path / "file"
    for seed in range(25):
        rng = random.Random(seed)
        rows: list[Row] = [(i, rng.randrange(1, 99), rng.randrange(9)) for i in range(60)]
        for _ in range(rng.choice((1, 1, 2))):
            rows[rng.randrange(60)] = rng.choice(BAD)
        text = blank_lines(write(rows), rng).encode()
        path.write_bytes(gzip.compress(text) if packed else text)
        with pytest.raises(InputError) as caught:
            read_trace(path)
        assert str(caught.value) == walked(path), seed


def test_odd_ways_of_writing_numbers_are_taken(tmp_path: Path, small: None) -> None:
    """Each chunk by itself, and all as the whole file is taken the longer way."""
    path = tmp_path / "file"
    for seed in range(8):
        rng = random.Random(seed)
        rows: list[Row] = [(i, rng.randrange(1, 99), 5) for i in range(60)]
        for _ in range(3):
            rows[rng.randrange(60)] = rng.choice(ODD)
        path.write_text(blank_lines(as_csv(rows), rng))
        kept = sorted((float(str(a)), int(float(str(p)))) for a, p, o in rows if o)
        trace = read_trace(path)
        assert trace.arrival_s.tolist() == [a - kept[0][0] for a, _ in kept]
        assert sorted(trace.prompt_tokens.tolist()) == sorted(p for _, p in kept)


@pytest.mark.parametrize("at", [5, 30, 31, 59])
def test_clocks_that_change_between_chunks(tmp_path: Path, small: None, at: int) -> None:
    stamps = [f"2023-11-16 18:17:{i:02}" + "+00:00" * (i >= at) for i in range(60)]
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(f"{s},1,1\n" for s in stamps)
    (tmp_path / "file").write_text(text)
    with pytest.raises(InputError, match=f"line {at + 2}: mixed clocks: .* as on line 2"):
        read_trace(tmp_path / "file")


@pytest.mark.parametrize("ending", ["\r", "\r\n"])
def test_line_ends_of_other_systems(tmp_path: Path, small: None, ending: str) -> None:
    rows: list[Row] = [(i, "10.0", 5) for i in range(60)]
    (tmp_path / "file").write_bytes(as_csv(rows).replace("\n", ending).encode())
    assert read_trace(tmp_path / "file").prompt_tokens.tolist() == [10] * 60
    rows[40] = (40, "ten", 5)
    (tmp_path / "file").write_bytes(as_csv(rows).replace("\n", ending).encode())
    with pytest.raises(InputError, match=r"line 42: prompt_tokens is 'ten'"):
        read_trace(tmp_path / "file")


@pytest.mark.parametrize("write", [as_csv, as_lines])
def test_little_is_read_row_by_row(
    tmp_path: Path, write: Callable[[list[Row]], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad row at the end of 300,000: the first thousand are looked at, and 64 kB of the last."""
    rows: list[Row] = [(i, 10, 20) for i in range(300_000)]
    rows[-1] = (0, "ten", 20)
    (tmp_path / "file").write_text(write(rows))
    looked = 0
    finite = fault.finite

    def counted(column: str, value: object) -> None:
        nonlocal looked
        looked += 1
        finite(column, value)

    monkeypatch.setattr(fault, "finite", counted)
    line = 300_000 + (write is as_csv)
    with pytest.raises(InputError, match=f"line {line}: prompt_tokens is 'ten'"):
        read_trace(tmp_path / "file")
    assert 1000 < looked < 1000 + chunks._NEAR_BYTES / len("0,10,20\n")
