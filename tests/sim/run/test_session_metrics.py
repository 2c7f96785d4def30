"""Session metrics worked out from two written-out conversations."""

import numpy as np
import pytest

from sim.engine.record import REFUSED, Log
from sim.run.session_metrics import reusable_tokens, session_metrics
from workloads.schema import PrefixBlocks, Provenance, Trace, Turns

# Session 0: rows 0, 2, 3 (row 3 runs beside row 2 as a sub-agent would). Session 1: rows 1, 4.
TURNS = Turns(
    session=np.array([0, 1, 0, 0, 1]),
    turn=np.array([0, 0, 1, 0, 1]),
    offsets=np.array([0, 0, 0, 1, 2, 3]),
    after=np.array([0, 0, 1]),
    delay_s=np.zeros(5),
)
# Blocks of 4 tokens. Row 2 has both of row 0's blocks and one more; row 4 one of row 1's two.
TRACE = Trace(
    "made",
    np.array([0.0, 1, 10, 12, 20]),
    np.array([8, 8, 12, 4, 8]),
    np.array([2, 2, 2, 2, 2]),
    Provenance("made", 5),
    PrefixBlocks(4, np.array([0, 2, 4, 7, 8, 10]), np.array([1, 2, 5, 6, 1, 2, 3, 9, 5, 7])),
    TURNS,
)
LOG = Log(
    requests={
        "arrival_s": np.array([0.0, 1, 10, 12, 20]),
        "first_scheduled_s": np.array([0.0, 1, 10, 12, 20]),
        "first_token_s": np.array([2.0, 4, 11, 16, 20.5]),
        "finish_s": np.array([4.0, 6, 14, 18, 21]),
        "status": np.zeros(5, dtype=np.int64),
        "prompt_tokens": np.array([8, 8, 12, 4, 8]),
        "cached_tokens": np.array([0, 0, 4, 0, 4]),
    },
    steps={},
    timeline={},
    resume_gaps_s=np.array([]),
    end_s=40.0,
)


def value(name: str) -> int | float | None:
    return next(row.value for row in session_metrics(LOG, TRACE) if row.name == name)


def test_task_times() -> None:
    """Session 0 from 0 to 18, session 1 from 1 to 21: 18 and 20 s."""
    assert value("sessions") == value("sessions_whole") == 2
    assert value("task_s_mean") == 19
    assert value("task_s_p50") == 19
    assert value("task_s_p90") == pytest.approx(19.8)


def test_sessions_that_count() -> None:
    """Of two, one asks at 10 and 12 s, both at 10 s or later; only one at 20 s."""
    for since_s, count in ((0.0, 2), (10.0, 2), (20.0, 1)):
        found = {row.name: row.value for row in session_metrics(LOG, TRACE, since_s)}
        assert found["sessions"] == count


def test_active_and_idle() -> None:
    """Session 0: 0 to 4 and 10 to 18 (its two overlap), 12 s; session 1: 1 to 6 and 20 to 21, 6 s.
    Open for 18 + 20 s. Over 40 s: 18 / 40 active, 20 / 40 idle."""
    assert value("sessions_active_mean") == pytest.approx(18 / 40)
    assert value("sessions_idle_mean") == pytest.approx(20 / 40)


def test_the_refused_are_gone_at_once() -> None:
    """Row 4 is refused at 20 s: session 1 is active from 1 to 6 and open until then, 19 s."""
    requests = dict(LOG.requests)
    requests["status"] = np.array([0, 0, 0, 0, REFUSED])
    requests["finish_s"] = np.array([4.0, 6, 14, 18, np.nan])
    found = {row.name: row.value for row in session_metrics(LOG._replace(requests=requests), TRACE)}
    assert found["sessions_whole"] == 1
    assert found["sessions_active_mean"] == pytest.approx((12 + 5) / 40)
    assert found["sessions_idle_mean"] == pytest.approx((18 + 19 - 17) / 40)


def test_by_turn() -> None:
    """First turns (rows 0, 1, 3): 2, 3 and 4 s, nothing cached. Second (2, 4): 1 and 0.5 s, 8 of 20
    prompt tokens cached."""
    assert value("ttft_ms_p50_turn_first") == 3000
    assert value("ttft_ms_p50_turn_second") == 750
    assert value("cached_share_turn_first") == 0
    assert value("cached_share_turn_second") == 40


def test_what_was_lost_between_turns() -> None:
    """Row 2 could reuse 8 tokens and found 4; row 3 shares nothing with row 0; row 4 could reuse 4
    and found them."""
    assert reusable_tokens(TRACE, TURNS).tolist() == [0, 0, 8, 0, 4]
    assert value("reusable_tokens") == 12
    assert value("lost_between_turns_tokens") == 4


def test_a_prompt_cached_whole_still_computes_its_last_token() -> None:
    same = Trace(
        "made",
        np.array([0.0, 1]),
        np.array([8, 8]),
        np.array([1, 1]),
        Provenance("made", 2),
        PrefixBlocks(4, np.array([0, 2, 4]), np.array([1, 2, 1, 2])),
        Turns(np.array([0, 0]), np.array([0, 1]), np.array([0, 0, 1]), np.array([0]), np.zeros(2)),
    )
    assert same.turns is not None
    assert reusable_tokens(same, same.turns).tolist() == [0, 7]


def test_other_traces_have_none() -> None:
    assert session_metrics(LOG, Trace("t", *3 * (np.array([1.0]),), Provenance("t", 1))) == []  # type: ignore[arg-type]
