"""A step of several ranks, by hand: from made-up kernel times, and from a datasheet."""

from pathlib import Path

import pytest

from sim.cost.base import Efficiency
from sim.cost.kernels.collectives import UNMEASURED, Collectives, batches
from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile
from sim.cost.kernels.ranks import TableRanks
from sim.cost.kernels.rules import KernelRules
from sim.cost.ranks import RooflineRanks
from sim.model.geometry import Model
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Chunk, StepPlan
from tests.made_up import (
    GEMM_US,
    HEAD_US,
    NORM_US,
    SAMPLER_US,
    attention_us,
)
from tests.sim.cost.test_experts import DEVICE, LAYERS, expert_us, folder_of_experts, mixtral
from workloads.errors import InputError

HIDDEN = 512


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return find_model(mixtral(tmp_path / "model"))


@pytest.fixture
def profile(tmp_path: Path) -> Profile:
    name = mixtral(tmp_path / "again")
    return read_folder(folder_of_experts(tmp_path / "gpu"), name="experts", model=name)


def decodes(model: Model, n: int, context: int) -> StepPlan:
    size = model.kv_bytes_per_token()
    return StepPlan(0, 1, n, n * context, n * context * size, n * size, 0, (), (), (), ())


def moved_us(tokens: int) -> float:
    """A layer's two collectives: 20 µs each, and all tokens of 512 numbers of 2 B once by the
    link's rate, half of it in each."""
    return 2 * 20 + 1e6 * tokens * HIDDEN * 2 / DEVICE.peer_bytes_per_s


def step_us(attention: float, pooled: int, share: int, ranks: int = 2) -> float:
    """Products of up to 64 tokens cost as those of 64; of 8 experts two are chosen a token, and a
    rank has its share of them."""
    woken = 8 * (1 - 0.75**pooled) / ranks
    layer = 2 * (GEMM_US + 64 / 8) + 2 * NORM_US + attention + expert_us(share, 0) + 2 * woken
    return LAYERS * (layer + moved_us(pooled)) + HEAD_US + SAMPLER_US


def test_the_slower_rank_and_the_larger_batch(model: Model, profile: Profile) -> None:
    """32 decodes of 100 tokens beside 8 of 600: the second's attention is the longer one, while
    both ranks compute 32 tokens of everything else, and the experts 64."""
    cost = TableRanks(KernelTable(model, DEVICE, profile), Collectives(model, DEVICE), 2)
    plans = [decodes(model, 32, 100), decodes(model, 8, 600)]
    slower = attention_us(0, 0, 8, 600)
    assert slower > attention_us(0, 0, 32, 100)
    found = cost.together_as(plans) / AS_PER_S * 1e6
    assert found == pytest.approx(step_us(slower, pooled=64, share=32))
    assert cost.together_as(plans[::-1]) == cost.together_as(plans)


def test_an_idle_rank_is_padded(model: Model, profile: Profile) -> None:
    """Beside 32 decodes it computes 32 tokens of padding, which choose experts like others."""
    cost = TableRanks(KernelTable(model, DEVICE, profile), Collectives(model, DEVICE), 2)
    plan = decodes(model, 32, 100)
    expected = step_us(attention_us(0, 0, 32, 100), pooled=64, share=32)
    assert cost.together_as([plan, None]) / AS_PER_S * 1e6 == pytest.approx(expected)
    assert cost.linear(plan) == (cost.together_as([plan, None]), 0, 1)


def test_without_graphs_each_computes_its_own(model: Model, profile: Profile) -> None:
    """An idle rank's dummy batch is one token: the experts get 33, a rank 17 of them."""
    table = KernelTable(model, DEVICE, profile, rules=KernelRules(padded_to=0))
    cost = TableRanks(table, Collectives(model, DEVICE), 2)
    expected = step_us(attention_us(0, 0, 32, 100), pooled=33, share=17)
    plan = decodes(model, 32, 100)
    assert cost.together_as([plan, None]) / AS_PER_S * 1e6 == pytest.approx(expected)


def test_a_batch_too_large_for_a_graph_is_padded_by_nobody() -> None:
    assert batches([512, 8], 512) == [512, 512]
    assert batches([513, 8], 512) == [513, 8]
    assert batches([7], 512) == [7]


def test_one_rank_is_the_engine_alone(model: Model, profile: Profile) -> None:
    """Apart from collectives, which one GPU doesn't need."""
    table = KernelTable(model, DEVICE, profile)
    moves = Collectives(model, DEVICE)
    plan = decodes(model, 24, 300)
    alone = table.linear(plan)[0]
    assert TableRanks(table, moves, 1).together_as([plan]) - moves.step_as(24) == alone


def test_stated_collectives(model: Model) -> None:
    """An all-reduce of 10 µs + 10 GB/s up to 64 KiB, beyond it of 30 µs + 20 GB/s: 64 tokens are
    65,536 B, the last of the small ones."""
    numbers = {
        "small_latency": 10e-6,
        "small_bandwidth": 10e9,
        "switch": 65536.0,
        "large_latency": 30e-6,
        "large_bandwidth": 20e9,
    }
    moves = Collectives(model, DEVICE, (numbers, "by hand"))
    assert moves.step_as(64) == pytest.approx(LAYERS * (20e-6 + 65536 / 10e9) * AS_PER_S)
    assert moves.step_as(65) == pytest.approx(LAYERS * (60e-6 + 66560 / 20e9) * AS_PER_S)
    assert UNMEASURED not in moves.warnings
    assert UNMEASURED in Collectives(model, DEVICE).warnings


def test_experts_by_tokens_alone_are_refused(model: Model, profile: Profile) -> None:
    profile.rows["moe"] = [(a, b, c, 0, t) for a, b, c, d, t in profile.rows["moe"] if d == 1]
    with pytest.raises(InputError, match=r"expected one from a moe\.csv with activated_experts"):
        TableRanks(KernelTable(model, DEVICE, profile), Collectives(model, DEVICE), 2)


ATTENTION = 2 * HIDDEN * HIDDEN + 2 * HIDDEN * 128  # queries and output, keys and values: 2 × 64
EXPERT = 3 * HIDDEN * 1024
DENSE = LAYERS * (ATTENTION + HIDDEN * 8 + 2 * HIDDEN) + HIDDEN + HIDDEN * 1000


def test_roofline_of_decodes(model: Model) -> None:
    """Bound by memory. 64 decodes a rank wake all 8 experts (0.75^128 are left out), of which a
    rank reads four; all else it reads whole, and the KV of the longer contexts."""
    cost = RooflineRanks(model, DEVICE, 2, 512)
    plans = [decodes(model, 64, 100), decodes(model, 64, 300)]
    read = 2 * (DENSE + LAYERS * 4 * EXPERT) + plans[1].read_bytes
    e = Efficiency()
    expected = read / (1e12 * e.bandwidth.value) + e.overhead.value
    moves = LAYERS * moved_us(128) / 1e6
    assert cost.together_as(plans) / AS_PER_S == pytest.approx(expected + moves, rel=1e-6)


def test_roofline_of_a_prompt(model: Model) -> None:
    """Bound by arithmetic: 2,000 tokens of one rank beside a dummy token. No graph is as large, so
    nobody pads; the experts of a rank get half of 2,001 tokens."""
    cost = RooflineRanks(model, DEVICE, 2, 512)
    chunks = (Chunk(0, 0, 2000, True),)
    plan = StepPlan(0, 1, 0, 0, 0, 0, 2000, chunks, (0,), (), ())
    e = Efficiency()
    a_token = 2 * LAYERS * (ATTENTION + HIDDEN * 8)
    products = 2000 * a_token + 2001 / 2 * 2 * LAYERS * 2 * EXPERT + 2 * HIDDEN * 1000
    pairs = 2000 * 2001 / 2 * 4 * 8 * 64 * LAYERS
    expected = products / (1e14 * e.matmul.value) + pairs / (1e14 * e.attention.value)
    moves = LAYERS * moved_us(2001) / 1e6
    found = cost.together_as([plan, None]) / AS_PER_S
    assert found == pytest.approx(expected + e.overhead.value + moves, rel=1e-6)
