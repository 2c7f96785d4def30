"""How many requests fit, against numbers worked out by hand, from papers and from engine logs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.hardware import find_device
from sim.memory import sizing
from sim.memory.ledger import kv_budget
from sim.memory.sizing import Sizing, explain, fill, size_policy, window_capped_requests
from sim.model.layers import LayerGroup
from sim.model.presets import find_model
from sim.policy.counting.pages import Pages
from sim.policy.manager import Pool, Stored
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.registry import parse_policy
from sim.policy.sliding_window import SlidingWindow
from workloads.errors import InputError

GIB = 2**30
LLAMA_3_8B = 131_072  # B per token
LLAMA_13B = 819_200
PIXTRAL_12B = 163_840


def paged(kv_bytes: int, token_bytes: int, max_len: int, *contexts: int) -> Sizing:
    pool = Pool(kv_bytes, token_bytes, max_len)
    return size_policy(Paging(16), "paging", pool, contexts or (max_len,), 4 * GIB)


# -- the user's document ---------------------------------------------------------------------


def test_a100_40gb_less_26_gb_of_weights_holds_two_conversations_of_8192() -> None:
    pool = Pool(40 * 10**9 - 26 * 10**9, LLAMA_13B, 8192)
    for policy in (Paging(16), Preallocation()):
        assert size_policy(policy, "", pool, (8192,)).fits[0].requests == 2


def test_with_room_for_activations_one() -> None:
    device = find_device("custom:memory=40GB,bandwidth=1555GB/s,flops=312TFLOP/s")
    ledger = kv_budget(find_model("llama-13b"), device, gpu_memory_utilization=1.0)
    fit = size_policy(Paging(16), "paging", ledger.pool(8192), (8192,)).fits[0]
    assert fit.requests == 1


def test_two_requests_reserve_16384_slots_and_use_10000() -> None:
    pool = Pool(14 * 10**9, LLAMA_13B, 8192)
    together = size_policy(Preallocation(), "", pool, (2000, 8000)).together
    assert together is not None
    assert together.requests == 2
    assert together.held_bytes == 16_384 * LLAMA_13B
    assert together.live_bytes == 10_000 * LLAMA_13B


def test_paging_uses_more_than_90_percent_of_what_it_holds() -> None:
    pool = Pool(14 * 10**9, LLAMA_13B, 8192)
    for fit in size_policy(Paging(16), "", pool, (2000, 8000)).fits:
        assert fit.live_bytes > 0.9 * fit.held_bytes
        assert fit.live_bytes > 0.9 * pool.capacity_bytes


# -- PagedAttention paper (SOSP'23): OPT-13B, 12 GiB -----------------------------------------


def test_orca_max_batches_seven() -> None:
    pool = Pool(12 * GIB, LLAMA_13B, 2048)  # OPT-13B has the same KV geometry
    assert pool.capacity_bytes // pool.token_bytes == 15_728
    assert size_policy(Preallocation(), "", pool, (500,)).fits[0].requests == 7


# -- engine logs: vLLM's "# GPU blocks" and "Maximum concurrency" ------------------------------


@pytest.mark.parametrize(
    ("gib", "token_bytes", "max_len", "blocks", "concurrency"),
    [
        ("3.81", LLAMA_3_8B, 20_000, 1952, "1.56"),  # RTX 3090
        ("2.89", LLAMA_3_8B, 29_000, 1478, "0.82"),
        ("10.53", PIXTRAL_12B, 8192, 4314, "8.43"),
        ("17.72", PIXTRAL_12B, 8192, 7259, "14.18"),
    ],
)
def test_logged_gib_gives_logged_blocks(
    gib: str, token_bytes: int, max_len: int, blocks: int, concurrency: str
) -> None:
    """The log rounds GiB to two decimals: 0.005 GiB are up to 2.6 blocks. Blocks give the rest."""
    rounded = paged(round(float(gib) * GIB), token_bytes, max_len, 1000)
    assert rounded.blocks == pytest.approx(blocks, abs=3)
    exact = paged(blocks * 16 * token_bytes, token_bytes, max_len, 1000)
    assert exact.blocks == blocks
    assert f"{exact.concurrency:.2f}" == concurrency
    assert exact.cache_tokens == blocks * 16


def test_127626_blocks() -> None:
    sizing = paged(127_626 * 16 * LLAMA_3_8B, LLAMA_3_8B, 2048)
    assert sizing.cache_tokens == 2_042_016
    assert f"{sizing.concurrency:.2f}" == "997.08"
    assert sizing.fits[0].requests == 997


def test_a_request_beyond_the_cache_does_not_fit() -> None:
    sizing = paged(1478 * 16 * LLAMA_3_8B, LLAMA_3_8B, 29_000, 23_648, 23_649, 29_000)
    assert sizing.longest_tokens == 23_648
    assert [fit.requests for fit in sizing.fits] == [1, 0, 0]
    assert sizing.together is None


@pytest.mark.parametrize(
    ("model", "blocks"), [("llama-3-8b", 2048), ("phi-2", 819), ("llama-2-7b", 512)]
)
def test_blocks_in_4_gib_of_swap_space(model: str, blocks: int) -> None:
    sizing = paged(GIB, find_model(model).kv_bytes_per_token(), 1024)
    assert sizing.host_blocks == blocks


def test_qwen3_coder_480b_at_262144() -> None:
    model = find_model("qwen3-coder-480b")
    assert round(model.kv_sequence_bytes(262_144) / GIB, 2) == 62.00
    for gib, tokens in ((48.66, 205_728), (55.65, 235_296)):
        rate = model.kv_bytes_per_token()
        assert f"{tokens * rate / GIB:.2f}" == f"{gib:.2f}"
        rounded = paged(round(gib * GIB), rate, 262_144)
        assert rounded.longest_tokens == pytest.approx(tokens, abs=16)  # 0.005 GiB: 21 tokens
        sizing = paged(tokens * rate + 15 * rate, rate, 262_144)  # floored to a block
        assert sizing.longest_tokens == tokens
        assert sizing.fits[0].requests == 0


# -- laws ------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.integers(1, 48), st.integers(1, 300), st.integers(0, 63))
def test_paging_counts_whole_blocks(blocks: int, size: int, context: int, rest: int) -> None:
    pool = Pool(blocks * size * 64 + rest % (size * 64), 64, 300)
    fit = fill(Paging(size).manager(pool), context)
    assert fit.requests == blocks // -(-context // size)


@given(st.integers(1, 10_000), st.integers(1, 300))
def test_preallocation_counts_whole_buffers(tokens: int, longest: int) -> None:
    pool = Pool(max(tokens, longest) * 64, 64, longest)
    fit = fill(Preallocation().manager(pool), 1)
    assert fit.requests == max(tokens, longest) // longest


def test_a_window_holds_less_than_it_serves() -> None:
    pool = Pool(100 * 64, 64, 1000)
    sizing = size_policy(SlidingWindow(window=16, sinks=4), "", pool, (1000,))
    assert sizing.longest_tokens == 1000
    assert sizing.fits[0].requests == 5
    assert sizing.fits[0].live_bytes == 5 * 20 * 64


def test_filled_managers_keep_their_laws() -> None:
    for spec in ("paging:block_size=16", "preallocation", "sliding_window:window=64"):
        manager = parse_policy(spec).manager(Pool(10**6, 64, 1000))
        fill(manager, 700)
        manager.check_integrity()


def test_capped_windows_fit_more() -> None:
    device = find_device("custom:memory=100GB,bandwidth=3TB/s,flops=900TFLOP/s")
    ledger = kv_budget(
        find_model("gemma-3-27b"), device, kv_cache_memory_bytes=81_920 * 32_768 + 416 * 2**20
    )
    assert window_capped_requests(ledger, 32_768) == 1
    assert window_capped_requests(ledger, 32_769) == 0
    assert size_policy(Paging(16), "", ledger.pool(32_768), (32_768,)).fits[0].requests == 0


def of_two_kinds(blocks: int, window: int, flight: int = 0) -> Pool:
    """Blocks of 16 tokens of a layer that keeps all and one that keeps a window, 8 B a token each;
    and 7 B too few for another."""
    groups = LayerGroup(1, "full", 1, 2, 2), LayerGroup(1, "window", 1, 2, 2, window=window)
    pool = Pool(blocks * 16 * 8 + 7, 0, 4096, groups=groups, in_flight_tokens=flight)
    return pool.storing((Stored(4, 4), Stored(4, 4)))


def test_a_million_requests_under_capped_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 tokens are 7 blocks of the first layer; of the second, the last 32 of them lie from token
    68 on, in 3. Of ten million blocks, 10 each serve a million requests, and none is left."""
    placed: list[int] = []
    place = sizing._place

    def counted(*given: Any) -> Any:
        placed.append(1)
        return place(*given)

    monkeypatch.setattr(sizing, "_place", counted)
    fit = fill(parse_policy("paging:layers=capped").manager(of_two_kinds(10_000_009, 32)), 100)
    assert fit.requests == 1_000_000
    assert fit.live_bytes == 1_000_000 * (100 + 32) * 8
    assert fit.groups == ((1_000_000 * 100 * 8, 0), (1_000_000 * 32 * 8, 0))
    assert (fit.memory.free, fit.memory.external) == (9 * 128, 7)
    assert len(placed) <= 2


@given(
    blocks=st.integers(2, 60),
    window=st.integers(1, 60),
    flight=st.sampled_from([0, 8, 40]),
    tokens=st.integers(1, 200),
    spec=st.sampled_from(["", ",watermark=0.1", "+prefix", "+int8"]),
)
def test_capped_windows_fit_as_many_as_are_admitted(
    blocks: int, window: int, flight: int, tokens: int, spec: str
) -> None:
    """What arithmetic says is what one after another comes to, to the byte."""
    policy, pool = parse_policy(f"paging:layers=capped{spec}"), of_two_kinds(blocks, window, flight)
    try:
        one_by_one = policy.manager(pool)
    except InputError:
        return  # not a token fits
    count = 0
    if tokens <= one_by_one.longest():
        while sizing._place(one_by_one, count, tokens):
            count += 1
    fit = fill(policy.manager(pool), tokens)
    assert fit == sizing.Fit(tokens, count, one_by_one.memory(), one_by_one.live_by_group())


@pytest.mark.parametrize(
    ("context", "expected"), [(0, "at least 1 token"), (-1, "at least 1 token"), (1001, "1 to")]
)
def test_impossible_lengths_are_named(context: int, expected: str) -> None:
    with pytest.raises(InputError, match=f"--context {context}: expected {expected}"):
        size_policy(Paging(16), "", Pool(10**6, 64, 1000), (context,))


def test_block_tables_are_int32() -> None:
    """20,000 tokens in blocks of 16: 1,250 entries, as vLLM's block_table has a row."""
    assert paged(4 * GIB, LLAMA_3_8B, 20_000).table_bytes == 1250 * 4


# -- every byte of the budget ------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        "preallocation:reserve=pow2,allocator=buddy",
        "growing",
        "chunked",
        "paging+top_k",
        "paging+int4",
        "paging:layers=unified",
        "paging:layers=capped+int8",
        "virtual",
    ],
)
def test_lines_of_a_fit_sum_to_the_budget(spec: str) -> None:
    ledger = kv_budget(find_model("gemma-3-27b"), find_device("h200"))
    sizing = size_policy(parse_policy(spec), spec, ledger.pool(32_768), (1000, 32_768))
    for fit in sizing.fits:
        lines = explain(ledger.model, fit)
        assert sum(size for _, size in lines) == ledger.kv_bytes
        assert min(size for _, size in lines) >= 0
        assert fit.requests


def test_layer_groups_keep_their_own_bytes() -> None:
    """Gemma-3-27B: 10 full layers keep all, 52 windowed ones 1,024 tokens, K + V of 16 x 128."""
    ledger = kv_budget(find_model("gemma-3-27b"), find_device("h200"))
    policy = parse_policy("paging:layers=unified+int8")
    fit = size_policy(policy, "", ledger.pool(32_768), (32_768,)).fits[0]
    lines = dict(explain(ledger.model, fit))
    vectors = 2 * 16  # K and V of each head
    assert lines["payload of 10 full layers"] == fit.requests * 32_768 * 10 * vectors * 128
    assert lines["payload of 52 window layers"] == fit.requests * 1024 * 52 * vectors * 128
    assert lines["scales of 10 full layers"] == fit.requests * 32_768 * 10 * vectors * 4
    assert lines["scales of 52 window layers"] == fit.requests * 1024 * 52 * vectors * 4


class OneByOne(Pages):
    """Filled request by request, for it isn't the class that is counted by arithmetic."""


@given(
    blocks=st.integers(1, 400),
    rest=st.integers(0, 4095),
    block_size=st.sampled_from([1, 2, 16, 128]),
    watermark=st.sampled_from([0.0, 0.01, 0.1, 0.9]),
    context=st.integers(1, 3000),
)
def test_blocks_are_counted_as_if_filled_one_by_one(
    blocks: int, rest: int, block_size: int, watermark: float, context: int
) -> None:
    pool = Pool(blocks * block_size * 48 + rest % (block_size * 48), 48, 3000)
    counted, filled = (of(pool, block_size, watermark) for of in (Pages, OneByOne))
    assert fill(counted, context) == fill(filled, context)
    assert counted.free == filled.free
    counted.check_integrity()
