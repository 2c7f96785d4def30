"""The short form of `make fuzz`'s kills: some commands killed once, and run again."""

from pathlib import Path

from tests.fuzz.kills import Kills

SOME = ("simulate, 2 processes", "sweep, 2 processes")


def test_a_kill_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    kills = Kills(tmp_path, seed=5, names=SOME)
    for name in SOME:
        kills.round(name, also_next=True)
    assert kills.counts["next runs"] == len(SOME)
    assert kills.wrong == 0, kills.counts
