"""What the first screen says of small runs whose outcome is known: written before the code.

Arrivals are at 0, 1, … 99 s unless said otherwise, so 100 ÷ 99 s = 1.01 requests/s are offered.
With one server of 2 s, request i starts at 2i: before arrival k, k − (⌊k/2⌋ + 1) requests wait.
That is at most 4 (the larger of 4 and 2 % of 100) up to k = 10, and 49 at the last arrival.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from reports.load import load_runs
from reports.verdict import verdict
from tests.reports.cases import TOO_LONG, Case, write_case

P16, P1, P128 = (f"paging:block_size={size}" for size in (16, 1, 128))
BEHIND = Case()
FREE = Case(servers=10)  # nobody waits; the last ends at 101 s, so 100 ÷ 101 = 0.99 are served
PREALLOCATION = Case("preallocation", internal=0.75)
# 50 arrivals a second apart, then one every 3 s: k arrives at t = 49 + 3(k − 49) and finds
# k − (⌊t/2⌋ + 1) waiting, at most 4 of them from k = 88 on, at 166 s.
BURST = Case(arrivals_s=(*map(float, range(50)), *(49 + 3.0 * i for i in range(1, 51))))
# At 0, 5, … s, so six before 30 s, where the run is stopped; the last is served at 27 s.
SELDOM = Case(requests=400, rate=0.2, servers=10, unfinished=394)
FORGETS = "forgets old tokens"
ROUNDS = "rounds keys and values to 8 bits"
POOL = {"token_bytes": 819_200, "max_len": 2048}


def rates(*of: float) -> list[Case]:
    """One server of 1.5 s."""
    return [Case(rate=rate, service_s=1.5) for rate in of]


class Expected(NamedTuple):
    cases: list[Case]
    tone: str
    headline: str
    detail: str = ""  # one of the sentences below holds it
    changes: dict[int, dict[str, Any]] = {}  # noqa: RUF012 (never changed)


# Ten at about 50 s, a tenth of a second each: more than 4 wait from 50.05 s to 50.9 s, under 1 %
# of the 91 s in which requests arrive.
MOMENT = Case(
    requests=101,
    service_s=0.1,
    arrivals_s=tuple(sorted([*map(float, range(92)), *(50 + i / 100 for i in range(1, 9)), 50.9])),
)
TABLE = {
    "a moment's queue is not falling behind": Expected(
        [MOMENT],
        "ok",
        f"{P16} keeps up: 1.11 requests/s offered, 1.11 served.",
    ),
    "idle": Expected(
        [Case(service_s=0.5)],  # ends at 99.5 s
        "ok",
        f"{P16} keeps up: 1.01 requests/s offered, 1.01 served.",
    ),
    "balanced": Expected(
        [Case(service_s=1.0)], "ok", f"{P16} keeps up: 1.01 requests/s offered, 1 served."
    ),
    "overloaded": Expected(
        [BEHIND],
        "failed",
        f"{P16} falls behind from 10 s: 1.01 requests/s offered, 0.5 served.",
        # TTFT of request i is i + 0.1 s, so its p99 is 98.01 + 0.1
        "At the last arrival, 99 s, 49 requests wait before it and the queue still grows; TTFT p99 "
        "is 98.1 s.",
    ),
    "all at once": Expected(
        [Case(arrivals_s=(0.0,) * 100)],
        "ok",
        f"100 requests that arrive at once take 200 s with {P16}: 0.5 requests/s.",
    ),
    "one alone": Expected(
        [Case(requests=1)], "ok", f"One request takes 2 s with {P16}: 0.5 requests/s."
    ),
    "lossy by its storage alone": Expected(
        [FREE],
        "ok",
        f"{P16} keeps up: 1.01 requests/s offered, 0.99 served.",
        f"{P16} with KV in fp8 changes the model's answers: {ROUNDS}.",
        {0: {"policy": {"spec": P16, "limitation": ROUNDS, "stored_as": "fp8"}}},
    ),
    "caught up": Expected(
        [BURST],  # 199 s of arrivals, ends at 201 s
        "mixed",
        f"{P16} falls behind from 10 s and catches up by 166 s: 0.503 requests/s offered, "
        "0.498 served.",
        "At most 24 requests wait before one that arrives, at 49 s.",  # 49 − (⌊49/2⌋ + 1)
    ),
    "one keeps up": Expected(
        [PREALLOCATION, FREE],
        "ok",
        f"{P16} keeps up with 1.01 requests/s; preallocation serves 0.5 and wastes 75 %.",
        # E2E of request i with preallocation: i + 2 s, 51.5 s on average
        f"A request takes 2 s on average with {P16}, 51.5 s with preallocation.",
    ),
    "ties": Expected(
        [Case(P1, servers=10), FREE, Case(P128, servers=10)],
        "ok",
        f"3 policies keep up with 1.01 requests/s, within 1 % of each other: {P16} is the "
        "simplest.",
        "Block tables and the slower kernels of small blocks are not charged",
    ),
    "tie with a modifier": Expected(
        [Case(f"{P16}+prefix", servers=10), FREE],
        "ok",
        f"2 policies keep up with 1.01 requests/s, within 1 % of each other: {P16} is the "
        "simplest.",
    ),
    "one answers sooner": Expected(
        [FREE, Case(P128, servers=10, service_s=4.0)],
        "ok",
        f"2 policies keep up with 1.01 requests/s: {P16} answers soonest, in 2 s on average "
        f"against 4 s with {P128}.",
    ),
    "none keeps up": Expected(
        [BEHIND, Case(P128, service_s=4.0)],  # 100 ÷ 400 s
        "failed",
        f"No policy keeps up with 1.01 requests/s: {P16} serves most, 0.5.",
        f"{P16} falls behind from 10 s",
    ),
    "all refused": Expected(
        [Case(refused=100)],
        "failed",
        "Every one of 100 requests was refused: even the shortest prompt, of 100 tokens, leaves no "
        "room for an answer within the policy's own options, the KV budget of 12.00 GiB and the "
        "longest context of 2,048 tokens.",
    ),
    "no requests": Expected(
        [Case(requests=0)],
        "failed",
        "The trace holds no requests, so there is nothing to compare.",
    ),
    "cut by the context": Expected(
        [Case(servers=10, truncated=5, cut_prompt=TOO_LONG)],
        "ok",  # not the policy's doing
        f"{P16} keeps up: 1.01 requests/s offered, 0.99 served.",
        "5 of 100 requests are cut short by the longest context of 2,048 tokens.",
    ),
    "refused for memory": Expected(
        [Case(servers=10, refused=5)],
        "mixed",
        # 95 of them until 101 s
        f"{P16} keeps up: 1.01 requests/s offered, 0.941 served.",
        "5 of 100 requests are refused for want of memory: they fit the longest context, but not "
        "the KV budget of 12.00 GiB or the policy's own options.",
    ),
    "one refused for memory": Expected(
        [Case(servers=10, refused=1)],  # 99 until 101 s
        "mixed",
        f"{P16} keeps up: 1.01 requests/s offered, 0.98 served.",
        "1 of 100 requests is refused for want of memory: it fits the longest context, but not",
    ),
    "stopped early": Expected(
        [Case(servers=10, unfinished=20)],  # stopped at 81 s, when 80 had come and gone
        "mixed",
        # of the 82 arrivals until then, over 81 s
        f"{P16} keeps up: 1.01 requests/s offered, 0.988 served.",
        "20 of 100 requests are unfinished: the run was stopped before.",
    ),
    "stopped at a horizon": Expected(
        [Case(servers=10, unfinished=20)],
        "mixed",
        # 82 of them come before 82 s, and 80 are served until 81 s
        f"{P16} keeps up: 1 requests/s offered, 0.988 served.",
        "20 of 100 requests are unfinished: the run was stopped before.",
        {0: {"horizon_s": 82.0}},
    ),
    "stopped with hundreds waiting": Expected(
        # one server of 8 s has taken six until 41 s; before request k of 41, at k s, wait k - 1 -
        # k // 8, which is more than 4 from k = 6 on
        [Case(service_s=8.0, unfinished=94)],
        "failed",
        f"{P16} falls behind from 5 s: 1 requests/s offered, 0.125 served.",
        changes={0: {"horizon_s": 41.0}},
    ),
    "stopped too soon to judge": Expected(
        [SELDOM],
        "mixed",
        f"{P16} is stopped when 6 requests have arrived, too few to judge: 0.2 requests/s offered, "
        "0.222 served.",
        "394 of 400 requests are unfinished: the run was stopped before.",
        {0: {"horizon_s": 30.0}},
    ),
    "two stopped too soon to judge": Expected(
        [SELDOM, replace(SELDOM, name=P128, service_s=4.0)],
        "mixed",
        f"Stopped when 6 requests have arrived, too few to judge: {P16} serves 0.222 requests/s.",
        changes={0: {"horizon_s": 30.0}, 1: {"horizon_s": 30.0}},
    ),
    "lossy by policy": Expected(
        [Case("sliding_window:window=8", servers=10, service_s=1.0, limitation=FORGETS), FREE],
        "ok",
        f"{P16} keeps up: 1.01 requests/s offered, 0.99 served.",
        f"Apart, because it changes the model's answers: sliding_window:window=8 ({FORGETS}) keeps "
        "up, 1 s on average.",
    ),
    "lossy by storage": Expected(
        [Case(P128, servers=10, service_s=1.0, limitation=ROUNDS), FREE],
        "ok",
        f"{P16} keeps up: 1.01 requests/s offered, 0.99 served.",
        f"Apart, because it changes the model's answers: {P128} (rounds keys and values to 8 bits) "
        "keeps up, 1 s on average.",
    ),
    "two cost models": Expected(
        [BEHIND, FREE],
        "mixed",
        "These runs take their times from different cost models (roofline, table), so no winner is "
        "named.",
        "falls behind from 10 s",
        {1: {"cost": {"name": "table"}}},
    ),
    "two constants": Expected(
        [BEHIND, FREE],
        "mixed",
        "These runs take their times from different cost models (roofline, roofline with "
        "other constants), so no winner is named.",
        changes={
            1: {
                "cost": {
                    "name": "roofline",
                    "constants": [
                        {"name": "efficiency", "value": 0.5, "unit": "", "source": "mine"}
                    ],
                }
            }
        },
    ),
    "sweep over rate": Expected(
        rates(1.0, 0.25, 0.5),  # as a shell sorts them: not by rate
        "mixed",
        f"{P16} keeps up to 0.505 requests/s and falls behind at 1.01.",
    ),
    "sweep over rate, never behind": Expected(
        rates(0.25, 0.5), "ok", f"{P16} keeps up to 0.505 requests/s, the highest rate tried."
    ),
    "sweep over memory": Expected(
        [BEHIND, FREE],
        "mixed",
        f"{P16} keeps up from a KV budget of 12.00 GiB on and falls behind at 6.00 GiB.",
        changes={0: {"pool": POOL | {"capacity_bytes": 6 * 2**30}}},
    ),
    "other lengths": Expected(
        [FREE, Case(servers=10, prompt=200)],
        "mixed",
        "These runs replay different traces, so no winner is named.",
    ),
    "other models": Expected(
        [FREE, BEHIND],
        "mixed",
        "These runs serve different models, so no winner is named.",
        changes={1: {"model": {"name": "other"}}},
    ),
    "predicted and measured": Expected(
        # TPOT (2.04 − 0.1) ÷ 10 against (2 − 0.1) ÷ 10: 2.1 %; E2E 2 %; TTFT alike
        [
            Case("predicted", servers=10, service_s=2.04),
            Case("measured", servers=10, kind="measured"),
        ],
        "ok",
        "Predicted latency means are within 2.1 % of those measured, percentiles within 2.1 %.",
    ),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_sentence(tmp_path: Path, name: str) -> None:
    expected = TABLE[name]
    folders = [
        write_case(tmp_path / f"run{i}" / "x", case, **expected.changes.get(i, {}))
        for i, case in enumerate(expected.cases)
    ]
    said = verdict(load_runs(folders))
    labels = {f"{case.name} · run{i}": case.name for i, case in enumerate(expected.cases)}
    headline = said.headline
    details = list(said.details)
    for label, plain in labels.items():
        headline = headline.replace(label, plain)
        details = [sentence.replace(label, plain) for sentence in details]
    assert headline == expected.headline
    assert said.tone == expected.tone
    assert any(expected.detail in sentence for sentence in details) or not expected.detail, details
