"""The short form of `make fuzz`'s kills: every command killed once, and run again."""

from pathlib import Path

from tests.fuzz.kills import COMMANDS, Kills


def test_a_kill_loses_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    kills = Kills(tmp_path, seed=5)
    for name in COMMANDS:
        kills.round(name, also_next=True)
    assert kills.counts["next runs"] == len(COMMANDS)
    assert kills.wrong == 0, kills.counts
