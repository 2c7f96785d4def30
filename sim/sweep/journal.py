"""Finished runs on disk, a line each: what a killed sweep has done, it need not do again."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from sim.sweep.evaluate import Row
from workloads.errors import InputError
from workloads.incoming import parse_json, read_bytes
from workloads.outgoing import encodable
from workloads.places import locked

NAME = "runs.jsonl"
MOST_BYTES = 1 << 32


class Journal:
    """Rows by key. A row is on disk before it is in here; a line cut off by a kill is none.

    Without a file rows are kept in memory alone.
    """

    def __init__(self, file: Path | None) -> None:
        self.rows: dict[str, Row] = {}
        self._out: BinaryIO | None = None
        if file is not None:
            self._out = self._read(file)

    def _read(self, file: Path) -> BinaryIO:
        """Take in what is there; the file, open behind its last whole line."""
        whole = 0
        content = read_bytes(file, most=MOST_BYTES) if file.exists() else b""
        *lines, _ = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            whole += len(line) + 1
            try:
                key, row = _entry(line)
            except ValueError as error:
                raise InputError(
                    f"{file}: line {number} is no finished run ({error}); expected a folder of an "
                    "earlier sweep, or a new one"
                ) from None
            self.rows[key] = row
        out = file.open("ab")
        out.truncate(whole)
        return out

    def add(self, key: str, row: Row) -> None:
        """Keep a finished run."""
        row = {
            name: encodable(cell) if isinstance(cell, str) else cell for name, cell in row.items()
        }
        if self._out is not None:
            self._out.write(_line(key, row) + b"\n")
            self._out.flush()
            os.fsync(self._out.fileno())
        self.rows[key] = row

    def close(self) -> None:
        """No more rows."""
        if self._out is not None:
            self._out.close()


def _entry(line: bytes) -> tuple[str, Row]:
    """Key and row of a line. Raises ValueError unless it is one of ours, unchanged."""
    entry = parse_json(line)
    key, row = (entry.get("key"), entry.get("row")) if isinstance(entry, dict) else (None, None)
    if not (isinstance(key, str) and isinstance(row, dict) and line == _line(key, row)):
        raise ValueError("it was not written by kvtwin, or changed since")
    return key, row


def _line(key: str, row: Row) -> bytes:
    """A finished run, and a sum by which a line that was changed is told."""
    text = json.dumps({"key": key, "row": row}, allow_nan=False, ensure_ascii=False)
    return f'{text[:-1]}, "crc32": {crc32(text.encode())}}}'.encode()


@contextmanager
def journal_in(folder: Path) -> Iterator[Journal]:
    """The journal of a folder, which is made where there is none. One sweep writes it at a time.

    Raises InputError where another does, or the folder holds something else.
    """
    file = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists() and any(one.name[0] != "." for one in folder.iterdir()):
            raise InputError(f"{folder}: holds no sweep; expected a new folder, or a sweep's own")
        with locked(file, folder, os.O_RDWR | os.O_CREAT):
            journal = Journal(file)
            try:
                yield journal
            finally:
                journal.close()
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
