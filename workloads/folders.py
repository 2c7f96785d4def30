"""A folder of results: made beside its place, then exchanged with what kvtwin wrote there before.

A mark in the folder names every file that was written and its size. Only what a mark names is ever
replaced; anything else in the folder is the user's.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from workloads.console import json_text
from workloads.errors import InputError
from workloads.exchange import exchange
from workloads.places import locked, parents_of, resolved, uninterrupted

MARK = ".kvtwin.json"
_WRITER = "kvtwin"
_GENERATOR = b'<meta name="generator" content="kvtwin'
"""What the head of every report says of itself, so that one made later needs no mark."""

_HEAD_BYTES = 4096


@contextmanager
def replaced_folder(target: Path) -> Iterator[Path]:
    """A fresh folder that takes the place of `target` when the block ends well.

    An absent or empty folder is filled; one of earlier results is replaced, whole and in one step.
    Raises InputError for any other, and while another run writes to it. On an error or
    interruption nothing is left behind; what a killed process left is removed by the next.
    """
    place = resolved(target)
    inside = _stays_in_place(place)
    work = place / ".kvtwin" if inside else place.parent / f".{place.name}.kvtwin"
    new, old = work / "new", work / "old"
    with ExitStack() as stack:
        with uninterrupted(), _explained(target):
            _check(target, place, work, inside)  # before anything is made
            stack.enter_context(parents_of(place))
            if not work.exists():
                work.mkdir(exist_ok=True)
                stack.callback(_remove_empty, work)  # where it can't even be opened
            held = stack.enter_context(locked(work, target, os.O_RDONLY | os.O_DIRECTORY))
            stack.callback(_clear, work)
            if held:
                _mend(place, new, old)
            _check(target, place, work, inside)  # as it is after mending
            new.mkdir()
        yield new
        with uninterrupted(), _explained(target):
            (new / MARK).write_text(_mark(new), encoding="ascii")
            if inside:
                _fill(new, place)
            else:
                _put(new, place, old, target)


def _clear(work: Path) -> None:
    shutil.rmtree(work, ignore_errors=True)
    if work.exists():  # it takes file handles to look inside, and there may be none left
        _remove_empty(work / "new")
        _remove_empty(work)


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"{target}: can't be written: {error.strerror or error}") from None


def _stays_in_place(place: Path) -> bool:
    """Whether the folder itself can't be renamed, or would be pulled away from under the user."""
    if not place.is_dir():
        return False
    here = Path.cwd()
    return (
        place == here
        or place in here.parents
        or os.path.ismount(place)
        or not os.access(place.parent, os.W_OK | os.X_OK)
    )


def _check(target: Path, place: Path, work: Path, inside: bool) -> None:
    """Raise InputError unless the place may be written."""
    if not os.path.lexists(place):
        return
    if not place.is_dir():
        raise InputError(f"{target}: exists and is no folder, expected a new one")
    if inside and any(child != work for child in place.iterdir()):
        raise InputError(
            f"{target}: holds something and can't be exchanged as a whole (it is in use, a mount "
            "point or in a read-only folder), expected an empty or a new folder"
        )
    if not inside and (other := foreign(place)):
        raise InputError(
            f"{target}: exists and holds other things than runs ({other}), expected a new folder"
        )


def foreign(folder: Path) -> str | None:
    """The path of something in it that kvtwin did not write, or None."""
    named = _named(folder)
    above = {str(parent) for name in named for parent in Path(name).parents}
    for root, folders, names in os.walk(folder):
        for name in sorted(folders):
            path = Path(root, name)
            if path.is_symlink() or str(path.relative_to(folder)) not in above:
                return str(path.relative_to(folder))
        for name in sorted(names):
            path = Path(root, name)
            relative = str(path.relative_to(folder))
            if relative != MARK and not _is_ours(path, named.get(relative)):
                return relative
    return None


def _named(folder: Path) -> dict[str, int]:
    """Sizes in bytes of the files that the folder's mark names, by path; none without a mark."""
    try:
        mark = json.loads((folder / MARK).read_bytes())
        if mark["written_by"] != _WRITER:
            return {}
        return {str(name): int(size) for name, size in mark["files"].items()}
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


def _mark(folder: Path) -> str:
    files = {
        str(path.relative_to(folder)): path.stat().st_size
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return json_text({"written_by": _WRITER, "files": files}) + "\n"


def _is_ours(path: Path, size_bytes: int | None) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    if size_bytes == path.stat().st_size:
        return True
    if path.suffix.lower() != ".html":
        return False
    with path.open("rb") as file:
        return _GENERATOR in file.read(_HEAD_BYTES)


def _mend(place: Path, new: Path, old: Path) -> None:
    """Undo what a writer left that was killed."""
    if old.is_dir():
        if os.path.lexists(place):
            shutil.rmtree(old)
        else:
            os.rename(old, place)
    if new.exists():
        shutil.rmtree(new)


def _fill(new: Path, place: Path) -> None:
    """Move everything into the empty folder, the mark first: it covers for what follows."""
    for child in sorted(new.iterdir(), key=lambda child: child.name != MARK):
        os.rename(child, place / child.name)


def _put(new: Path, place: Path, spare: Path, target: Path) -> None:
    """Put the new folder in place. What came there during the run stays where it is."""
    if not place.exists():
        os.rename(new, place)
        return
    other = foreign(place)
    if other is None:
        exchange(new, place, spare)
        other = foreign(new)  # it may have come since
        if other is None:
            shutil.rmtree(new)
            return
        exchange(new, place, spare)
    kept = _free_name(place)
    os.rename(new, kept)
    raise InputError(
        f"{target}: {other} came into it during the run, so it stays; the new results are in "
        f"{target.with_name(kept.name)}"
    )


def _free_name(place: Path) -> Path:
    number = 2
    while os.path.lexists(place.with_name(f"{place.name}-{number}")):
        number += 1
    return place.with_name(f"{place.name}-{number}")
