"""A trace replayed at its stamps and after its answers: what waiting hides."""

import json
from pathlib import Path

import numpy as np
import pytest

from reports.build import render, write_report
from reports.language import speaking
from reports.load import load_runs
from reports.replays import hidden_table, replays
from reports.terminal import print_outcome
from reports.verdict import comparable, verdict
from sim.run.folder import folder_name, write_run
from sim.run.load import each_replay
from sim.run.options import RunOptions
from sim.run.simulation import Run, simulate
from workloads.errors import InputError
from workloads.schema import Provenance, Trace, Turns

# Asked at 0, 2 and 4 s by one client that thinks 1 s: the recorded server took 1 s an answer.
TRACE = Trace(
    "made",
    np.array([0.0, 2, 4]),
    np.array([10, 10, 10]),
    np.array([3, 3, 3]),
    Provenance("made", 3),
    turns=Turns(
        np.zeros(3, dtype=np.int64),
        np.arange(3),
        np.array([0, 0, 1, 2]),
        np.array([0, 1]),
        np.array([0.0, 1, 1]),
    ),
)
SETTING = {"model": "llama-3-8b", "gpu": "a100-80gb", "cost": "fixed:seconds=1", "max_num_seqs": 1}


def run(policy: str = "paging", **more: str | float) -> Run:
    return simulate(TRACE, policy=policy, **SETTING, **more)  # type: ignore[arg-type]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    for one in (run(replay="stamps"), run()):
        (folder := tmp_path / folder_name(one.setup.name)).mkdir()
        write_run(one, folder, "test")
    return tmp_path


def test_by_hand(folders: Path) -> None:
    """An answer takes three steps of 1 s, one request at a time. As stamped they end at 3, 6 and 9:
    3, 4 and 5 s after the stamps, 4 on average. A client that waits asks at 0, 4 and 8, and waits
    3 s each time: 1 s of 4 is hidden, a quarter."""
    stamps, answers = run(replay="stamps"), run()
    assert answers.log.requests["arrival_s"].tolist() == [0, 4, 8]
    assert stamps["e2el_ms_mean"] == 4000
    assert answers["e2el_ms_mean"] == 3000
    loaded = load_runs([folders])
    found = replays(loaded)
    assert len(found) == 1
    assert found[0].stamps.label == "paging, as stamped"
    rows = {row[0]: row[2:] for row in hidden_table(found).rows}
    assert rows["E2E mean"] == ("4,000", "3,000", "1,000", "25.0")
    assert rows["E2E p99"] == ("4,980", "3,000", "1,980", "39.8")  # 4 + 0.98 (5 - 4)
    said = verdict(loaded)
    assert said.headline == (
        "paging: a request takes 4 s on average as stamped, 3 s where its client waits for "
        "answers, over the same 3 requests: waiting hides 1 s, 25 % of it."
    )
    assert said.best is None
    assert not comparable(loaded)


def test_on_a_page(folders: Path, tmp_path: Path) -> None:
    write_report([folders], tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert 'id="replays"' in page
    assert "What the client&#39;s waiting hides" in page
    kinds = {json.loads(file.read_text())["replay"] for file in folders.glob("*/run.json")}
    assert kinds == {"answers", "stamps"}
    assert 'id="swept"' not in page
    assert "paging, as stamped" in page
    assert "paging, after answers" in page


def test_in_chinese(folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with speaking("zh"):
        loaded = load_runs([folders])
        page = render(loaded)
        print_outcome(loaded)
    said = capsys.readouterr().out
    for name in ("paging、按时间戳", "paging、等待回答"):
        assert name in page
        assert name in said
    assert "as stamped" not in said


def test_runs_of_one_kind_are_no_pair(folders: Path) -> None:
    loaded = load_runs([folders])
    assert replays(loaded[:1]) == []
    assert replays([]) == []


def test_which_runs_the_option_asks_for() -> None:
    both = RunOptions(model="llama-3-8b", replay="both")
    assert [one.replay for one in each_replay(both)] == ["stamps", "answers"]
    with pytest.raises(InputError, match="stamps have no users"):
        each_replay(RunOptions(model="llama-3-8b", replay="both", concurrency=2))
    with pytest.raises(InputError, match="makes two runs"):
        run(replay="both")


def test_a_warm_up_leaves_the_same_requests(tmp_path: Path) -> None:
    """A warm-up of 3 s leaves out the requests at 0 and 2 s as stamped, after answers that at 0 s
    alone (they come at 0, 4 and 8 s). The third counts in both: 5 s as stamped and 3 s."""
    for one in (run(replay="stamps", warm_up="3s"), run(warm_up="3s")):
        (folder := tmp_path / folder_name(one.setup.name)).mkdir()
        write_run(one, folder, "test")
    loaded = load_runs([tmp_path])
    assert [one.value("e2el_ms_mean") for one in loaded if one.info.replay == "answers"] == [3000]
    assert verdict(loaded).headline == (
        "paging: a request takes 5 s on average as stamped, 3 s where its client waits for "
        "answers, over the same 1 request: waiting hides 2 s, 40 % of it."
    )
    rows = {row[0]: row[2:] for row in hidden_table(replays(loaded)).rows}
    assert rows["E2E mean"] == ("5,000", "3,000", "2,000", "40.0")


def test_none_in_common(tmp_path: Path) -> None:
    """As stamped the warm-up of 4.5 s would leave none, so one of 3.5 s; stopped at 6.5 s, the
    third request, at 4 s, is answered in neither."""
    for one in (
        run(replay="stamps", warm_up="3.5s", horizon=6.5),
        run(warm_up="3.5s", horizon=6.5),
    ):
        (folder := tmp_path / folder_name(one.setup.name)).mkdir()
        write_run(one, folder, "test")
    said = verdict(load_runs([tmp_path])).headline
    assert said == "paging: no request was answered in both replays."
