"""One long run says how far it is and for how long still; off a terminal now and then a line."""

import re

import pytest

from sim.commands.progress import Progress
from sim.run.simulation import execute, prepare


class Clock:
    """A second a question."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_run_tells_its_share_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr("sim.commands.progress.monotonic", clock)
    setup = prepare("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=40,
                    policy="paging")  # fmt: skip
    shares: list[float] = []
    with Progress(1) as progress:

        def told(share: float) -> None:
            shares.append(share)
            progress.share(share)

        execute(setup, told=told)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < 0.5 < shares[-1] <= 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 3
    assert len(lines) < len(shares)  # a log isn't flooded
    found = [re.fullmatch(r"[━─]{20} (\d+)% of the requests(, about [\d,]+ s left)?", line)
             for line in lines]  # fmt: skip
    assert all(found)
    late = found[-2]
    assert late is not None
    assert late[2]


def test_the_time_left_goes_by_what_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """30 s for half of the first of two runs: 90 s more."""
    times = iter([0.0, 30.0, 30.0, 30.0])
    monkeypatch.setattr("sim.commands.progress.monotonic", lambda: next(times))
    with Progress(2) as progress:
        progress.share(0.5)
    assert capsys.readouterr().err == (
        "━━━━━─────────────── 0/2 simulated, 50% of the next, about 90 s left\n"
    )
