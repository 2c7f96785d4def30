"""Made workloads and chains of transforms: means by the law that was asked for, and round trips."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from workloads import read_trace
from workloads.arrivals import parse_arrivals
from workloads.errors import InputError
from workloads.made import SHAPES, make_workload
from workloads.prefix import seen_before
from workloads.schema import Trace
from workloads.steps import apply_steps
from workloads.transform import merge, repeat, thin
from workloads.write import write_trace


def same(one: Trace, two: Trace) -> None:
    assert one.arrival_s.tolist() == two.arrival_s.tolist()
    assert one.prompt_tokens.tolist() == two.prompt_tokens.tolist()
    assert one.output_tokens.tolist() == two.output_tokens.tolist()
    assert (one.prefix is None) == (two.prefix is None)
    if one.prefix and two.prefix:
        assert one.prefix.offsets.tolist() == two.prefix.offsets.tolist()
        # ids are names: which are equal is what counts
        _, first = np.unique(one.prefix.ids, return_inverse=True)
        _, second = np.unique(two.prefix.ids, return_inverse=True)
        pairs = set(zip(first.tolist(), second.tolist(), strict=True))
        assert len(pairs) == first.max() + 1 == second.max() + 1
    assert (one.turns is None) == (two.turns is None)
    if one.turns and two.turns:
        for field in ("session", "turn", "offsets", "after"):
            assert getattr(one.turns, field).tolist() == getattr(two.turns, field).tolist(), field
        assert one.turns.delay_s == pytest.approx(two.turns.delay_s)


@pytest.mark.parametrize("name", SHAPES)
def test_a_turns_prompt_holds_all_that_was_said_before(name: str) -> None:
    """prompt(k + 1) = prompt(k) + output(k) + what is added; every full block of it is named so."""
    trace = make_workload(name, 60, 0.2, seed=3)
    turns, blocks = trace.turns, trace.prefix
    assert turns is not None
    assert blocks is not None
    followers = 0
    for row in range(len(trace)):
        (before,) = turns.after[turns.offsets[row] : turns.offsets[row + 1]].tolist() or (None,)
        if before is None:
            assert turns.turn[row] == 0
            assert trace.prompt_tokens[row] > SHAPES[name].system
            continue
        followers += 1
        said = int(trace.prompt_tokens[before] + trace.output_tokens[before])
        assert trace.prompt_tokens[row] > said
        assert turns.session[before] == turns.session[row]
        assert turns.turn[before] == turns.turn[row] - 1
        full = int(trace.prompt_tokens[before]) // blocks.block_tokens
        one = blocks.ids[blocks.offsets[before] :][:full]
        assert one.tolist() == blocks.ids[blocks.offsets[row] :][:full].tolist()
        assert trace.arrival_s[row] == pytest.approx(trace.arrival_s[before] + turns.delay_s[row])
    assert followers > 60
    # of two sessions, the system prompt alone is shared
    rows = [int(np.flatnonzero(turns.session == session)[0]) for session in (0, 1)]
    first, second = (blocks.ids[blocks.offsets[row] : blocks.offsets[row + 1]] for row in rows)
    both = min(len(first), len(second))
    assert int((first[:both] == second[:both]).sum()) == SHAPES[name].system // blocks.block_tokens


def test_means_are_those_asked_for() -> None:
    """8.6 turns a session (geometric), pauses of 13 s, answers of 663 tokens."""
    trace = make_workload("coding-agent", 4000, 1.0, seed=1)
    assert trace.turns is not None
    assert np.bincount(trace.turns.session).mean() == pytest.approx(8.6, rel=0.05)
    waits = np.diff(trace.turns.offsets) > 0
    assert trace.turns.delay_s[waits].mean() == pytest.approx(13, rel=0.03)
    assert trace.output_tokens.mean() == pytest.approx(663, rel=0.05)


def test_retrieval_asks_about_popular_documents() -> None:
    """200 documents asked about 3,000 times: nearly all of a prompt has been seen before."""
    trace = make_workload("retrieval", 3000, 5.0, seed=2)
    assert trace.prefix is not None
    share = seen_before(trace.prefix).sum() / len(trace.prefix.ids)
    assert 0.85 < share < 0.99


@pytest.mark.parametrize(
    "spec", ["bursts:factor=5,share=0.1,length=30", "diurnal:swing=0.9,period=900"]
)
def test_arrivals_keep_the_mean_rate(spec: str) -> None:
    arrivals = parse_arrivals(spec)(40_000, 4.0, np.random.default_rng(8))
    assert arrivals[0] == 0
    assert (np.diff(arrivals) >= 0).all()
    assert len(arrivals) / arrivals[-1] == pytest.approx(4.0, rel=0.1)


def test_bursts_are_as_dense_as_asked() -> None:
    """A tenth of the time at 5 times the mean holds half of the requests."""
    arrivals = parse_arrivals("bursts:factor=5,share=0.1,length=10")(
        200_000, 10.0, np.random.default_rng(4)
    )
    a_second = np.bincount(arrivals.astype(int))
    dense = a_second > 28  # between 50 in a burst and 5.6 outside
    assert dense.mean() == pytest.approx(0.1, abs=0.03)
    assert a_second[dense].sum() / len(arrivals) == pytest.approx(0.5, abs=0.12)


def test_a_day_is_lowest_at_its_beginning() -> None:
    """Rate 1 − 0.8 cos: the quarter about midnight holds 1/4 − 0.8/π·sin(π/4)= 7 % of requests."""
    arrivals = parse_arrivals("diurnal:swing=0.8,period=1000")(
        60_000, 3.0, np.random.default_rng(4)
    )
    phase = (arrivals[arrivals < 19_000] % 1000) / 1000
    night = ((phase < 0.125) | (phase > 0.875)).mean()
    assert night == pytest.approx(0.25 - 0.8 / np.pi * np.sin(np.pi / 4), abs=0.01)


@pytest.mark.parametrize(
    "spec", ["bursts:factor=20,share=0.1,length=3", "diurnal:swing=2,period=9"]
)
def test_impossible_arrivals(spec: str) -> None:
    with pytest.raises(InputError, match="expected"):
        parse_arrivals(spec)


@pytest.mark.parametrize("name", SHAPES)
def test_sessions_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    trace = make_workload(name, 20, 0.5, seed=5)
    write_trace(trace, tmp_path / "t.jsonl")
    same(read_trace(tmp_path / "t.jsonl"), trace)
    before = (tmp_path / "t.jsonl").read_bytes()
    write_trace(make_workload(name, 20, 0.5, seed=5), tmp_path / "t.jsonl")
    assert (tmp_path / "t.jsonl").read_bytes() == before


def test_what_one_line_cannot_say_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="sub-agents"):
        write_trace(read_trace("coding-agents"), tmp_path / "t.jsonl")
    with pytest.raises(InputError, match=r"expected \.jsonl"):
        write_trace(make_workload("chat", 3, 1.0), tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_thinning_keeps_sessions_whole() -> None:
    trace = make_workload("chat", 300, 1.0, seed=6)
    thinned = thin(trace, 0.3, seed=1)
    assert trace.turns is not None
    assert thinned.turns is not None
    sizes = sorted(np.bincount(trace.turns.session).tolist())
    kept = np.bincount(thinned.turns.session).tolist()
    assert 60 < len(kept) < 120
    assert len(thinned) == sum(kept)
    assert all(kept.count(size) <= sizes.count(size) for size in set(kept))
    waits = np.diff(thinned.turns.offsets)
    assert (waits == (thinned.turns.turn > 0)).all()


def test_a_slice_frees_those_whose_predecessor_is_outside() -> None:
    trace = make_workload("chat", 40, 1.0, seed=6)
    late = apply_steps(trace, ["slice=15:90"])
    assert late.turns is not None
    waits = np.diff(late.turns.offsets)
    assert (waits <= 1).all()
    freed = int(((waits == 0) & (late.turns.turn > 0)).sum())
    assert freed > 0
    same(apply_steps(trace, ["slice=0:1e9"]), trace)


def test_repeating_is_merging_with_a_later_self() -> None:
    trace = make_workload("retrieval", 50, 1.0, seed=2)
    thrice = repeat(trace, 3)
    period = trace.arrival_s[-1] * (1 + 1 / 49)
    assert len(thrice) == 150
    assert thrice.arrival_s[50:100] == pytest.approx(trace.arrival_s + period)
    later = replace(trace, arrival_s=trace.arrival_s + period)
    same(repeat(trace, 2), merge(trace, later))
    assert thrice.prefix is not None
    parts = [
        set(thrice.prefix.ids[a:b]) for a, b in pairwise(thrice.prefix.offsets[[0, 50, 100, 150]])
    ]
    assert not parts[0] & parts[1]


def test_merged_sessions_still_follow_their_own() -> None:
    one, two = make_workload("chat", 30, 1.0, seed=1), make_workload("chat", 25, 0.7, seed=2)
    both = merge(one, two)
    assert both.turns is not None
    assert len(both) == len(one) + len(two)
    assert int(both.turns.session.max()) + 1 == 55
    for row in range(len(both)):
        for before in both.turns.after[both.turns.offsets[row] : both.turns.offsets[row + 1]]:
            assert before < row
            assert both.turns.session[before] == both.turns.session[row]
            assert both.turns.turn[before] == both.turns.turn[row] - 1


def test_steps_are_kept_in_order(tmp_path: Path) -> None:
    trace = read_trace("azure-2023-code")
    made = apply_steps(trace, ["first=100", "max_total=1000", "rate=2"])
    assert len(made) == 100
    assert int((made.prompt_tokens + made.output_tokens).max()) <= 1000
    assert 100 / made.arrival_s[-1] == pytest.approx(2)
    assert [note.split()[0] for note in made.provenance.notes] == ["the", "capped", "arrivals"]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("first=x", "'x' is no number"),
        ("first=0", "expected a whole number >= 1"),
        ("thin=2", "at most 1"),
        ("turn=3", "no such step"),
        ("slice=5", "is no number"),
        ("merge=nowhere", "no such file"),
    ],
)
def test_bad_steps(step: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        apply_steps(read_trace("burstgpt-sample"), [step])
    assert str(caught.value).startswith(f"--then {step}: ")
    assert "\n" not in str(caught.value)


def test_the_recipe_lies_beside_the_trace(tmp_path: Path) -> None:
    from workloads.cli import transform

    transform("burstgpt-sample", out=tmp_path / "t.csv", then=["first=5", "rate=1"])
    recipe = json.loads((tmp_path / "t.csv.recipe.json").read_text())
    assert recipe["steps"] == ["first=5", "rate=1"]
    assert recipe["requests"] == 5
    assert len(recipe["notes"]) == 2


def test_a_drawn_trace_has_its_recipe_beside_it(tmp_path: Path) -> None:
    from workloads.cli import generate

    generate(workload="chat", requests=3, request_rate=0.5, seed=7, out=tmp_path / "t.jsonl")
    recipe = json.loads((tmp_path / "t.jsonl.recipe.json").read_text())
    assert recipe["source"] == "made: chat, 3 at 0.5/s (poisson), seed 7"
    generate(
        requests=5, request_rate=2, seed=8, prompt="lognormal:mean=9,cv=1", out=tmp_path / "d.csv"
    )
    recipe = json.loads((tmp_path / "d.csv.recipe.json").read_text())
    assert "lognormal:mean=9,cv=1" in json.dumps(recipe)
    assert "seed 8" in json.dumps(recipe)
