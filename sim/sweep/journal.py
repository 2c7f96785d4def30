"""Finished runs on disk, a line each: what a killed sweep has done, it need not do again."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sim.sweep.evaluate import Row
from workloads.errors import InputError
from workloads.places import locked

NAME = "runs.jsonl"


class Journal:
    """Rows by key. A row is on disk before it is in here; a line cut off by a kill is none."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.rows: dict[str, Row] = {}
        whole = 0
        content = file.read_bytes() if file.exists() else b""
        for line in content.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            try:
                entry = json.loads(line)
                self.rows[entry["key"]] = entry["row"]
            except (ValueError, TypeError, KeyError):
                raise InputError(
                    f"{file}: line {content[:whole].count(10)} is no finished run; expected a "
                    "folder of an earlier sweep, or a new one"
                ) from None
        self._out = file.open("ab")
        self._out.truncate(whole)

    def add(self, key: str, row: Row) -> None:
        """Keep a finished run."""
        line = json.dumps({"key": key, "row": row}, allow_nan=False, ensure_ascii=False)
        self._out.write(line.encode() + b"\n")
        self._out.flush()
        os.fsync(self._out.fileno())
        self.rows[key] = row

    def close(self) -> None:
        """No more rows."""
        self._out.close()


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
