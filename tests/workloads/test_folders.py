"""Output folders: only what kvtwin wrote is replaced, in one step, by one writer at a time."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from workloads import InputError
from workloads import exchange as exchanging
from workloads.folders import MARK, replaced_folder
from workloads.write import replacing


def write(target: Path, text: str = "new") -> None:
    with replaced_folder(target) as staged:
        (staged / "run").mkdir()
        (staged / "run" / "run.json").write_text(text)


def write_while(target: Path, other: Path) -> None:
    with replaced_folder(target) as staged:
        (staged / "run").mkdir()
        (staged / "run" / "run.json").write_text("new")
        other.write_text("years")


def held(target: Path) -> str:
    return (target / "run" / "run.json").read_text()


def listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


OURS = {"out", "out/run", "out/run/run.json", f"out/{MARK}"}


def test_a_new_one_and_its_successor(tmp_path: Path) -> None:
    write(tmp_path / "out", "one")
    assert listing(tmp_path) == OURS
    write(tmp_path / "out", "two")
    assert listing(tmp_path) == OURS
    assert held(tmp_path / "out") == "two"


@pytest.mark.parametrize("name", ["report.html", "validation.json", "x-plans.jsonl", "notes.txt"])
def test_a_file_that_the_user_wrote_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("mine")
    with pytest.raises(InputError, match=name):
        write(tmp_path / "out")
    assert listing(tmp_path) == {"out", f"out/{name}"}


@pytest.mark.parametrize("place", ["thesis.txt", "run/notes.txt", "mine/"])
def test_a_file_beside_earlier_runs_stays(tmp_path: Path, place: str) -> None:
    write(tmp_path / "out", "old")
    added = tmp_path / "out" / place
    added.mkdir() if place.endswith("/") else added.write_text("years")
    with pytest.raises(InputError, match=place.rstrip("/")):
        write(tmp_path / "out")
    assert added.exists()
    assert held(tmp_path / "out") == "old"


def test_a_file_of_ours_that_the_user_rewrote_stays(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "run" / "run.json").write_text("what I wrote over it")
    with pytest.raises(InputError, match=r"run\.json"):
        write(tmp_path / "out")


def test_a_report_made_later_is_ours_by_its_head(tmp_path: Path) -> None:
    write(tmp_path / "out")
    (tmp_path / "out" / "report.html").write_text('<meta name="generator" content="kvtwin">')
    write(tmp_path / "out", "again")
    assert listing(tmp_path) == OURS


def test_a_file_that_came_during_the_run_stays_and_so_do_the_results(tmp_path: Path) -> None:
    write(tmp_path / "out", "old")
    kept = r"thesis\.txt came into it .* results are in .*out-2"
    with pytest.raises(InputError, match=kept):
        write_while(tmp_path / "out", tmp_path / "out" / "thesis.txt")
    assert (tmp_path / "out" / "thesis.txt").read_text() == "years"
    assert held(tmp_path / "out") == "old"
    assert held(tmp_path / "out-2") == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"out", "out-2"}


def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), replaced_folder(tmp_path / "a" / "b" / "out"):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert held(tmp_path / "real") == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"link", "real"}


def test_the_current_folder_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path / "out")
    write(Path("."))
    assert listing(tmp_path) == OURS
    with pytest.raises(InputError, match="expected an empty or a new folder"):
        write(Path("."))
    assert listing(tmp_path) == OURS


def test_a_folder_around_the_current_one_is_not_pulled_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "out", "old")
    monkeypatch.chdir(tmp_path / "out" / "run")
    with pytest.raises(InputError, match="in use"):
        write(tmp_path / "out")
    assert held(tmp_path / "out") == "old"


def test_a_tilde_is_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    write(Path("~/out"))
    with replacing(Path("~/file")) as unfinished:
        unfinished.write_text("text")
    assert held(tmp_path / "home" / "out") == "new"
    assert (tmp_path / "home" / "file").exists()
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
def test_the_umask_is_honoured(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        write(tmp_path / "out")
        with replacing(tmp_path / "file") as unfinished:
            unfinished.write_text("text")
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o777 & ~mask
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o666 & ~mask


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    with replaced_folder(tmp_path / "out") as staged:
        with pytest.raises(InputError, match="another run is writing it"):
            write(tmp_path / "out", "second")
        (staged / "run").mkdir()
        (staged / "run" / "run.json").write_text("first")
    assert held(tmp_path / "out") == "first"
    with replacing(tmp_path / "file") as unfinished:
        with pytest.raises(InputError, match="another run"), replacing(tmp_path / "file"):
            pass
        unfinished.write_text("first")
    assert (tmp_path / "file").read_text() == "first"


WRITER = """
import os, signal, sys
from pathlib import Path
from workloads import exchange, folders
step = sys.argv[2]
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
if step == "during":
    pass
elif step == "between":  # of the renames of a system that can't exchange
    exchange._renameat2 = lambda: None
    rename, done = os.rename, []
    def once(*paths):
        rename(*paths)
        done.append(paths)
        if len(done) == 1:
            die()
    os.rename = once
elif step == "after":
    exchanged = folders.exchange
    folders.exchange = lambda *paths: (exchanged(*paths), die())
with folders.replaced_folder(Path(sys.argv[1])) as staged:
    (staged / "run").mkdir()
    (staged / "run" / "run.json").write_text("killed")
    if step == "during":
        die()
"""


@pytest.mark.parametrize(
    ("step", "before_next"), [("during", "old"), ("between", "old"), ("after", "killed")]
)
def test_kills_lose_nothing_and_the_next_start_mends(
    tmp_path: Path, step: str, before_next: str
) -> None:
    out = tmp_path / "out"
    write(out, "old")
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(out), step],
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(ZeroDivisionError), replaced_folder(out):
        raise ZeroDivisionError  # the next start mends, whatever becomes of it
    assert held(out) == before_next
    assert listing(tmp_path) == OURS
    write(out)
    assert listing(tmp_path) == OURS


def test_without_the_system_call_it_is_exchanged_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchanging, "_renameat2", lambda: None)
    write(tmp_path / "out", "one")
    write(tmp_path / "out", "two")
    assert held(tmp_path / "out") == "two"
    assert listing(tmp_path) == OURS


def test_the_exchange_shows_no_moment_without_a_folder(tmp_path: Path) -> None:
    if exchanging._renameat2() is None:
        pytest.skip("this system can't exchange two names")
    write(tmp_path / "out", "0")
    looker = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys\n"
            "missing = 0\n"
            "print('ready', flush=True)\n"
            "while not os.path.exists(sys.argv[2]):\n"
            "    missing += not os.path.exists(sys.argv[1])\n"
            "print(missing)",
            str(tmp_path / "out" / "run" / "run.json"),
            str(tmp_path / "stop"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert looker.stdout is not None
    assert looker.stdout.readline() == "ready\n"
    for number in range(50):
        write(tmp_path / "out", str(number))
    (tmp_path / "stop").touch()
    assert int(looker.stdout.read()) == 0
    looker.wait()


def test_a_leftover_of_a_dead_writer_of_a_file_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / ".file.kvtwin-part").write_text("half")
    with replacing(tmp_path / "file") as unfinished:
        unfinished.write_text("whole")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "whole"}
