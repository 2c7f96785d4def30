"""Unequal contexts: what the shipped profiles measured of them, and how a step uses it."""

from statistics import median

import pytest

from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile, find_profile
from sim.cost.kernels.skew import LengthSkew, repetitions, waits_beside_chunks
from sim.hardware import find_device
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Chunk, StepPlan

NS = 1e-3  # µs


@pytest.mark.parametrize(
    ("name", "key_ns"),
    [
        ("rtx-4090-llama-3.1-8b-tp1", 90),
        ("rtx-pro-6000-qwen3-32b-tp1", 54),
        ("rtx-pro-6000-qwen3-32b-tp2", 54),
    ],
)
def test_a_key_above_the_mean_takes_the_same_time_whatever_the_batch(
    name: str, key_ns: float
) -> None:
    """One number holds over 8 to 64 decodes and chunks of 16 to 1,024 tokens, and over TP.

    The numbers were found by another program from the same rows of LLMServingSim's profiles.
    """
    waits = waits_beside_chunks(find_profile(name))
    assert len(waits) > 1000
    assert median(wait for *_, wait in waits) == pytest.approx(key_ns * NS, rel=0.05)
    for axis, sizes in enumerate(((8, 16, 32, 64), (16, 32, 64, 128, 256, 512, 1024))):
        assert {wait[axis] for wait in waits} == set(sizes)
        for size in sizes:
            some = median(wait[2] for wait in waits if wait[axis] == size)
            assert some == pytest.approx(key_ns * NS, rel=0.3), (axis, size)


@pytest.mark.parametrize(
    ("name", "key_ns"),
    [
        ("rtx-4090-llama-3.1-8b-tp1", 30),
        ("rtx-pro-6000-qwen3-32b-tp1", 18),
        ("rtx-pro-6000-qwen3-32b-tp2", 18),
    ],
)
def test_the_rows_hold_three_repetitions_as_the_attention_table_says_too(
    name: str, key_ns: float
) -> None:
    """Equal batches take three times as long there, and the profiler's meta.yaml has
    measurement_iterations: 3. What one decode beside a chunk takes for a key more, in the attention
    table, is a third of what the rows say, and no row of theirs is in it."""
    profile = find_profile(name)
    assert repetitions(profile) == 3
    waits = waits_beside_chunks(profile)
    assert median(wait for *_, wait in waits) / 3 == pytest.approx(key_ns * NS, rel=0.05)
    times = {row[:4]: row[4] for row in profile.rows["attention"]}
    slopes = [
        (times[chunk, earlier, 1, 8192] - time) / 4096
        for (chunk, earlier, n, context), time in times.items()
        if 0 < chunk <= 1024 and earlier <= 1024 and n == 1 and context == 4096
    ]
    assert len(slopes) > 50
    assert median(slopes) == pytest.approx(key_ns * NS, rel=0.2)


def test_repetitions_that_nobody_can_tell_are_one() -> None:
    assert repetitions(made_up()) == 1


def made_up(**rows: list[tuple[int, int, int, int, float]]) -> Profile:
    """64 sequences of which one has 1,600 keys: 10 % of the way to the longest when alone."""
    skew = {
        "skew_mean": [(1, 576, 64, 592, 100.0)],
        "skew_max": [(1, 576, 64, 1600, 200.0)],
        "skew_time": [(1, 576, 64, 1600, 110.0)],
    }
    return Profile({"name": "made-up", "multiprocessors": 100}, {**skew, **rows}, "made-up")


def test_whether_keys_are_split_is_decided_at_the_padded_size() -> None:
    """Below 0.8 · 2 · 100 ÷ 4 = 40 blocks of threads nothing waits; a graph of 40 is at it."""
    skew = LengthSkew(made_up(), kv_heads=4)
    assert skew.unsplit_from == 40
    assert skew.alpha(32, 32) == 0
    assert skew.alpha(33, 33) == 0  # eager
    assert skew.alpha(33, 40) == pytest.approx(64 * 0.1 / 33)
    assert skew.alpha(64, 64) == pytest.approx(0.1)


def test_few_long_rows_alone_tell_the_wait_beside_a_chunk() -> None:
    """(130 − 100) µs over 3,000 keys; rows of many long ones and of late chunks don't count."""
    profile = made_up(
        mixed_mean=[(16, 0, 8, 1000, 100.0), (16, 0, 8, 1000, 100.0), (16, 4096, 8, 1000, 100.0)],
        mixed_time=[(16, 0, 1, 4000, 130.0), (16, 0, 4, 4000, 500.0), (16, 4096, 1, 4000, 100.0)],
    )
    assert LengthSkew(profile, kv_heads=4).key_us == pytest.approx(0.01)


def test_a_step_with_a_chunk_waits_for_the_longest_decode() -> None:
    """Twice as many keys above the mean, twice the wait, in each of 32 layers."""
    profile = find_profile("rtx-4090-llama-3.1-8b-tp1")
    model = find_model("llama-3.1-8b")
    table = KernelTable(model, find_device("rtx-4090"), profile)
    size = model.kv_bytes_per_token()
    plan = StepPlan(
        *(0, 1, 8, 8000, 8000 * size, 8 * size, 64),
        *((Chunk(9, 0, 64, True),), (), (), ()),
        longest_context=1000,
    )
    equal = table.linear(plan)[0]
    for longest in (2000, 3000):
        waits = table.linear(plan._replace(longest_context=longest))[0] - equal
        key_us = 0.965 * median(wait for *_, wait in waits_beside_chunks(profile)) / 3
        assert waits / AS_PER_S * 1e6 == pytest.approx(32 * (longest - 1000) * key_us, rel=1e-6)
