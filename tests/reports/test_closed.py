"""Closed loops: users ask as they are answered, so a run has no load to keep up with."""

from pathlib import Path
from typing import Any

import pytest

from reports.load import load_runs
from reports.service import service
from reports.terminal import print_outcome
from reports.verdict import verdict
from tests.reports.synthetic import PAGING, PREALLOCATION, write_folder


def loop(**more: Any) -> dict[str, Any]:
    return {"closed_loop": {"users": 60, "think_s": 0.0, "exponential": False, **more}}


def test_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_folder(tmp_path / "a", PREALLOCATION, loop())
    runs = load_runs([tmp_path])
    said = verdict(runs)
    served = runs[0].value("request_throughput")
    assert said.headline == (
        f"preallocation answers 60 users, with one request or session each at a time: "
        f"{served:.3g} requests/s served."
    )
    assert said.status == "every request is served"
    print_outcome(runs)
    assert "ffered" not in capsys.readouterr().out


def test_many_waiting_users_are_not_behind(tmp_path: Path) -> None:
    """With 7 servers, more than a handful of 60 users wait: at stamps that would be behind."""
    write_folder(tmp_path / "stamps", PREALLOCATION)
    write_folder(tmp_path / "users", PREALLOCATION, loop())
    stamps, users = (load_runs([tmp_path / name])[0] for name in ("stamps", "users"))
    assert service(stamps).behind_from_s is not None
    assert service(users).behind_from_s is None


def test_several_runs(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", PREALLOCATION, loop())
    write_folder(tmp_path / "b", PAGING, loop())
    said = verdict(load_runs([tmp_path])).headline
    assert said.startswith("paging:block_size=16 answers 60 users soonest, in ")
    assert "keep" not in said
    assert "with preallocation: " in said


def test_held_back_stamps_are_offered(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", PAGING, loop(paced=True))
    assert "requests/s offered" in verdict(load_runs([tmp_path])).headline
