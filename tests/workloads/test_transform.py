"""Laws of the transforms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import InputError, PrefixBlocks, Provenance, Trace, read_trace
from workloads.describe import describe
from workloads.prefix import seen_before
from workloads.schema import Turns
from workloads.transform import cap, first, mean_rate, sample, scale_rate, snapshot, time_slice


def trace_of(arrival_s: list[float], prompt: list[int], output: list[int]) -> Trace:
    return Trace(
        "t",
        np.array(arrival_s, np.float64),
        np.array(prompt, np.int64),
        np.array(output, np.int64),
        Provenance("a test", len(prompt)),
    )


CONV = read_trace("azure-2023-conv")
MOONCAKE = first(read_trace("mooncake-synthetic"), 400)


def is_consistent(trace: Trace) -> bool:
    assert trace.prefix is not None
    counts = np.diff(trace.prefix.offsets)
    blocks = -(-trace.prompt_tokens // trace.prefix.block_tokens)
    return bool((counts == blocks).all()) and len(trace.prefix.ids) == counts.sum()


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.floats(1e-3, 1e6))
def test_scaling_gives_the_rate_and_keeps_the_shape(rate: float) -> None:
    scaled = scale_rate(CONV, rate)
    assert mean_rate(scaled) == pytest.approx(rate, rel=1e-12)
    before, after = describe(CONV), describe(scaled)
    assert after.inter_arrival_cv == pytest.approx(before.inter_arrival_cv)
    assert scaled.arrival_s[0] == 0
    assert scaled.prompt_tokens is CONV.prompt_tokens
    assert len(scaled.provenance.notes) == 1


def test_rate_counts_requests_not_gaps() -> None:
    assert mean_rate(trace_of([0, 1, 2], [1] * 3, [1] * 3)) == 1.5
    assert mean_rate(trace_of([0, 0], [1] * 2, [1] * 2)) is None
    with pytest.raises(InputError, match="all requests arrive at once"):
        scale_rate(trace_of([0, 0], [1] * 2, [1] * 2), 5)
    with pytest.raises(InputError, match="request_rate is 0, expected"):
        scale_rate(CONV, 0)


def test_slice_is_half_open_and_starts_at_zero() -> None:
    trace = trace_of([0, 1, 2, 2, 3], [1, 2, 3, 4, 5], [1] * 5)
    cut = time_slice(trace, 1, 3)
    assert cut.arrival_s.tolist() == [0, 1, 1]
    assert cut.prompt_tokens.tolist() == [2, 3, 4]
    assert cut.provenance.notes == ("sliced: 3 of 5 requests, 1 s <= arrival < 3 s",)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (-1, 2, "expected 0 <= start < end"),
        (2, 2, "expected 0 <= start < end"),
        (0, float("nan"), "expected 0 <= start < end"),
        (1.2, 1.9, "no request between 1.2 and 1.9 s; arrivals go from 0 to 3 s"),
        (9, float("inf"), "no request between"),
    ],
)
def test_bad_slices(start: float, end: float, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        time_slice(trace_of([0, 1, 2, 3], [1] * 4, [1] * 4), start, end)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(st.floats(1, 3500))
def test_slices_partition_a_trace(at: float) -> None:
    head, tail = time_slice(CONV, 0, at), time_slice(CONV, at, float("inf"))
    assert len(head) + len(tail) == len(CONV)
    assert [*head.prompt_tokens, *tail.prompt_tokens] == CONV.prompt_tokens.tolist()


def test_first() -> None:
    assert first(CONV, 3).prompt_tokens.tolist() == [374, 396, 879]
    assert first(CONV, len(CONV)) is CONV
    with pytest.raises(InputError, match="requests is 0"):
        first(CONV, 0)


def test_slices_keep_blocks_consistent() -> None:
    assert is_consistent(first(MOONCAKE, 7))
    cut = time_slice(MOONCAKE, 20, 60)
    assert is_consistent(cut)
    assert MOONCAKE.prefix is not None
    assert cut.prefix is not None
    start = int(np.searchsorted(MOONCAKE.arrival_s, 20))
    block = MOONCAKE.prefix.offsets[start]
    assert cut.prefix.ids[:9].tolist() == MOONCAKE.prefix.ids[block : block + 9].tolist()


limits = st.one_of(st.none(), st.integers(2, 70_000))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(limits, limits, limits)
def test_cap_holds_all_limits_and_touches_nothing_else(
    max_prompt: int | None, max_output: int | None, max_total: int | None
) -> None:
    capped = cap(MOONCAKE, max_prompt=max_prompt, max_output=max_output, max_total=max_total)
    prompt, output = capped.prompt_tokens, capped.output_tokens
    assert len(capped) == len(MOONCAKE)
    assert (prompt >= 1).all()
    assert (output >= 1).all()
    assert (prompt <= MOONCAKE.prompt_tokens).all()
    assert (output <= MOONCAKE.output_tokens).all()
    for values, limit in ((prompt, max_prompt), (output, max_output), (prompt + output, max_total)):
        assert limit is None or (values <= limit).all()
    assert is_consistent(capped)
    again = cap(capped, max_prompt=max_prompt, max_output=max_output, max_total=max_total)
    assert again.prompt_tokens.tolist() == prompt.tolist()
    assert again.output_tokens.tolist() == output.tolist()


def test_cap_counts_what_it_touched() -> None:
    trace = trace_of([0, 1, 2], [10, 20, 30], [5, 50, 5])
    capped = cap(trace, max_prompt=25, max_total=30)
    assert capped.prompt_tokens.tolist() == [10, 20, 25]
    assert capped.output_tokens.tolist() == [5, 10, 5]
    assert capped.provenance.notes == (
        "capped (max_prompt 25, max_total 30): 1 prompts and 1 outputs shortened",
    )
    for bad in ({"max_prompt": 0}, {"max_output": 0}, {"max_total": 1}):
        with pytest.raises(InputError, match=r"expected a whole number >="):
            cap(trace, **bad)


def test_a_block_cut_through_is_another_block() -> None:
    prefix = PrefixBlocks(16, np.array([0, 2, 4, 6, 8]), np.array([0, 1, 0, 1, 0, 2, 0, 3]))
    trace = Trace(
        "t",
        np.zeros(4),
        np.array([32, 32, 30, 20]),
        np.ones(4, np.int64),
        Provenance("a test", 4),
        prefix,
    )
    blocks = cap(trace, max_prompt=24).prefix
    assert blocks is not None
    # Requests 0 and 1 share the piece; 3 was short enough to keep its block.
    assert blocks.ids.tolist() == [0, 4, 0, 4, 0, 5, 0, 3]
    # A limit that only just holds request 2 leaves its last block alone.
    kept = cap(trace, max_prompt=30).prefix
    assert kept is not None
    assert kept.ids.tolist() == [0, 4, 0, 4, 0, 2, 0, 3]
    whole = cap(trace, max_prompt=16).prefix
    assert whole is not None
    assert whole.ids.tolist() == [0, 0, 0, 0]


def test_nothing_is_altered_in_place() -> None:
    before = CONV.prompt_tokens.copy(), CONV.arrival_s.copy(), CONV.provenance
    cap(scale_rate(first(CONV, 100), 3), max_prompt=10)
    assert (CONV.prompt_tokens == before[0]).all()
    assert (CONV.arrival_s == before[1]).all()
    assert CONV.provenance == before[2]
    assert not cap(CONV, max_prompt=10).prompt_tokens.flags.writeable


def leading_runs(prefix: PrefixBlocks) -> list[int]:
    known: set[int] = set()
    runs = []
    for begin, end in zip(prefix.offsets, prefix.offsets[1:], strict=False):
        ids = prefix.ids[begin:end].tolist()
        runs.append(next((i for i, block in enumerate(ids) if block not in known), len(ids)))
        known.update(ids)
    return runs


@settings(deadline=None, derandomize=True, max_examples=80)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=6))
def test_seen_before_is_the_leading_run_of_known_blocks(requests: list[list[int]]) -> None:
    offsets = np.concatenate(([0], np.cumsum([len(ids) for ids in requests])))
    prefix = PrefixBlocks(16, offsets, np.array([i for ids in requests for i in ids], np.int64))
    assert seen_before(prefix).tolist() == leading_runs(prefix)


@pytest.mark.parametrize("trace", [CONV, MOONCAKE], ids=["without ids", "with ids"])
def test_samples_of_one_prompt_share_all_of_it_and_nothing_else(trace: Trace) -> None:
    few = first(trace, 50)
    many = sample(few, 3)
    assert many.arrival_s.tolist() == np.repeat(few.arrival_s, 3).tolist()
    assert many.output_tokens.tolist() == np.repeat(few.output_tokens, 3).tolist()
    assert is_consistent(many)
    assert many.prefix is not None
    counts = np.diff(many.prefix.offsets).tolist()
    known = seen_before(many.prefix).tolist()
    siblings = [i for i in range(150) if i % 3]
    assert [known[i] for i in siblings] == [counts[i] for i in siblings]
    if trace.prefix is None:
        assert not any(known[::3])


def test_samples_must_be_positive() -> None:
    with pytest.raises(InputError, match="samples is 0, expected a whole number >= 1"):
        sample(CONV, 0)


def test_a_snapshot_enters_sessions_in_the_middle() -> None:
    """Session 0 lives from 0 to 100 s (rows 0, 2, 4), session 1 from 10 to 30 (rows 1, 3). With
    the draws r and s their moments are 100 r and 10 + 20 s; what is stamped before is gone, who
    waited for it comes at its stamp, and all moments are at 0 s."""
    trace = Trace(
        "made",
        np.array([0.0, 10, 20, 30, 100]),
        np.array([1, 2, 3, 4, 5]),
        np.ones(5, dtype=np.int64),
        Provenance("made", 5),
        turns=Turns(
            session=np.array([0, 1, 0, 1, 0]),
            turn=np.array([0, 0, 1, 1, 2]),
            offsets=np.array([0, 0, 0, 1, 2, 3]),
            after=np.array([0, 1, 2]),
            delay_s=np.array([0.0, 0, 15, 12, 60]),
        ),
    )
    seen = set()
    for seed in range(20):
        r, s = np.random.default_rng(seed).random(2)
        moments = {0: 100 * r, 1: 10 + 20 * s}
        session = {1: 0, 2: 1, 3: 0, 4: 1, 5: 0}
        stamp = {1: 0.0, 2: 10.0, 3: 20.0, 4: 30.0, 5: 100.0}
        left = {p: stamp[p] - moments[session[p]] for p in stamp}
        left = {p: at for p, at in left.items() if at >= 0}
        order = sorted(left, key=lambda p: left[p])
        found = snapshot(trace, seed)
        assert found.prompt_tokens.tolist() == order
        assert found.arrival_s == pytest.approx([left[p] - left[order[0]] for p in order])
        assert found.turns is not None
        for row, prompt in enumerate(order):
            before = {3: 1, 4: 2, 5: 3}.get(prompt)
            waits = found.turns.after[found.turns.offsets[row] : found.turns.offsets[row + 1]]
            assert [order[one] for one in waits] == ([before] if before in order else [])
        seen.add(tuple(order))
    assert (4, 5) in seen or (5, 4) in seen  # both in their last turn
    assert any(3 in order for order in seen)
    with pytest.raises(InputError, match="has no sessions"):
        snapshot(replace(trace, turns=None))
