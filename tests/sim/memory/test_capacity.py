"""Requests at once against their length, by hand: Llama-13B in 14 GB, 819,200 B a token."""

import pytest

from sim.hardware import find_device
from sim.memory.capacity import curve, lengths, requests_now, run_curves, would_buy
from sim.memory.ledger import Ledger, kv_budget
from sim.model.presets import find_model
from sim.policy.registry import parse_policy


@pytest.fixture(scope="module")
def ledger() -> Ledger:
    device = find_device("a100-40gb")
    return kv_budget(find_model("llama-2-13b"), device, kv_cache_memory_bytes=14 * 10**9)


@pytest.mark.parametrize(
    ("spec", "at_1024", "at_2048"),
    [
        # a buffer is of the longest context, whatever the request: 14e9 // (4,096 × 819,200) = 4
        ("preallocation", 4, 4),
        # 14e9 // (16 × 819,200) = 1,068 blocks: 1,068 // 64, 1,068 // 128
        ("paging:block_size=16", 16, 8),
    ],
)
def test_shorter_requests_in_an_engine_of_4096(
    ledger: Ledger, spec: str, at_1024: int, at_2048: int
) -> None:
    own, halved = run_curves(parse_policy(spec), spec, ledger, 4096)
    assert own.points == ((1024, at_1024), (2048, at_2048), (4096, 4))
    assert dict(halved.points)[4096] == 8


def test_longer_than_the_longest_is_its_own_engine(ledger: Ledger) -> None:
    policy = parse_policy("preallocation")
    found = curve(policy, "", ledger, lengths(4096, ()), 2048)
    assert found.points == ((1024, 8), (2048, 8), (4096, 4))


def test_shorter_requests_buy_nothing_where_the_longest_context_stays(ledger: Ledger) -> None:
    policy = parse_policy("preallocation")
    assert requests_now(policy, ledger, 1024, 4096) == 4
    kept = dict(would_buy(policy, ledger, 1024, 4096, None))
    assert kept == {"--kv-cache-dtype fp8": 8, "contexts of 512 tokens": 4}
    moved = dict(would_buy(policy, ledger, 4096, 4096, None))
    assert moved["contexts of 2,048 tokens"] == 8


def test_only_what_makes_room_is_advice(ledger: Ledger) -> None:
    """1,068 blocks of 16 hold 17,088 tokens and in 8 bits 34,176: neither 49,999 nor half of it,
    but half of that, 12,499, in 782 blocks."""
    policy = parse_policy("paging:block_size=16")
    found = list(would_buy(policy, ledger, 49_999, 49_999, None))
    assert found == [("contexts of 12,499 tokens", 1)]
