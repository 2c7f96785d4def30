"""Traces that are not tables: a JSON document a conversation, in a file, a folder or an archive."""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workloads.errors import InputError
from workloads.incoming import parse_json
from workloads.readers.source import Source


def holds_documents(path: Path) -> bool:
    """Whether it is a folder, or an archive of files."""
    try:
        return path.is_dir() or zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except (OSError, EOFError, zlib.error):  # damaged: whoever reads it says how
        return False


def documents_in(path: Path, label: str) -> Iterator[tuple[str, Any]]:
    """Each .json file of a folder or archive, by name: what to call it, and its content."""
    count = 0
    for name, content in _members(path):
        count += 1
        yield f"{label}: {name}", _parsed(content, f"{label}: {name}")
    if not count:
        raise InputError(f"{label}: holds no .json file, expected a conversation in each")


def documents_of(source: Source) -> Iterator[tuple[str, Any]]:
    """Each line of a JSON Lines file, or part of a document: what to call it, and its content."""
    if source.kind == "documents":
        if not isinstance(source.content, list):
            yield source.label, source.content
            return
        for number, part in enumerate(source.content, 1):
            yield f"{source.label}: record {number}", part
        return
    with source.text() as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                place = f"{source.label}: line {number}"
                yield place, _parsed(line.encode(), place)


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield str(file.relative_to(path)), file.read_bytes()
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".json"):
                    yield name, archive.read(name)
    else:
        with tarfile.open(path) as tar:
            files = {member.name: member for member in tar if member.isfile()}
            for name in sorted(files):
                if name.endswith(".json") and (content := tar.extractfile(files[name])):
                    yield name, content.read()


def _parsed(content: bytes, place: str) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        raise InputError(f"{place}: {error}, expected one object") from None
