"""Every family's own configuration: bytes a token, of windows and of states, worked out by hand.

The files under configs/ have the fields that their models publish, the parts that say nothing of
memory left out.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from sim.model.hf_config import read_config
from sim.model.kv_formats import kv_format

CONFIGS = Path(__file__).parent / "configs"
MIB = 2**20


class Case(NamedTuple):
    """Bytes in 16 bits on one GPU."""

    name: str
    token: int  # while every layer keeps it
    growth: int  # once windows are full
    windows: int
    state: int = 0


def kv(layers: int, heads: int, dim: int) -> int:
    """K and V of a token: 2 × layers × heads × dimension × 2 B."""
    return 2 * layers * heads * dim * 2


def case(name: str, full: int, windowed: int = 0, window: int = 0, state: int = 0) -> Case:
    return Case(name, full + windowed, full, windowed * window, state)


DELTA_27B = 3 * (2 * 16 * 128 + 48 * 128) * 2 + 48 * 128 * 128 * 4  # its state is in 32 bits
DELTA_80B = 3 * (2 * 16 * 128 + 32 * 128) * 2 + 32 * 128 * 128 * 2
KDA = 3 * 3 * 32 * 128 * 2 + 32 * 128 * 128 * 4  # three convolutions; the state in 32 bits
MAMBA_2_NANO = 3 * (64 * 64 + 2 * 8 * 128) * 2 + 64 * 64 * 128 * 4

CASES = [
    case("llama-3.1-8b", kv(32, 8, 128)),
    case("llama-4-maverick", kv(12, 8, 128), kv(36, 8, 128), 8192),  # chunks, 3 of 4 layers
    case("qwen2.5-7b", kv(28, 4, 128)),  # its window is switched off
    case("qwen3-8b", kv(36, 8, 128)),
    case("qwen3-30b-a3b", kv(48, 4, 128)),
    case("qwen3-next-80b-a3b", kv(12, 2, 256), state=36 * DELTA_80B),
    case("qwen3.5-27b", kv(16, 4, 256), state=48 * DELTA_27B),
    case("gemma-2-9b", kv(21, 8, 256), kv(21, 8, 256), 4096),
    case("gemma-3-27b", kv(10, 16, 128), kv(52, 16, 128), 1024),
    case("gemma-3n-e4b", kv(4, 2, 256), kv(16, 2, 256), 512),  # the last 15 share others' caches
    case("gemma-4-26b-a4b", kv(5, 2, 512), kv(25, 8, 256), 1024),
    case("gpt-oss-20b", kv(12, 8, 64), kv(12, 8, 64), 128),
    case("deepseek-v2-lite", 27 * (512 + 64) * 2),
    case("deepseek-v3", 61 * (512 + 64) * 2),
    case("deepseek-v3.2", 61 * ((512 + 64) * 2 + 128 + 4)),
    case("glm-4.5", kv(92, 8, 128)),
    case("glm-5.1", 78 * ((512 + 64) * 2 + 128 + 4)),
    case("kimi-k2", 61 * (512 + 64) * 2),
    case("kimi-k2.5", 61 * (512 + 64) * 2),
    case("kimi-linear-48b-a3b", 7 * (512 + 64) * 2, state=20 * KDA),
    case("minimax-text-01", kv(10, 8, 128), state=70 * 64 * 128 * 128 * 2),
    case("minimax-m2", kv(62, 8, 128)),
    case("mistral-7b-v0.1", 0, kv(32, 8, 128), 4096),
    case("ministral-3-8b", kv(34, 8, 128)),
    case("mixtral-8x7b", kv(32, 8, 128)),
    case("phi-4-mini", 0, kv(32, 8, 128), 131_072),  # a window above its 131,072 positions
    case("phi-3.5-moe", 0, kv(32, 8, 128), 131_072),
    case("command-r7b", kv(8, 8, 128), kv(24, 8, 128), 4096),
    case("olmo-3-7b", kv(8, 32, 128), kv(24, 32, 128), 4096),
    case("exaone-4.0-32b", kv(16, 8, 128), kv(48, 8, 128), 4096),
    case("granite-4.0-h-small", kv(4, 8, 128),
         state=36 * (3 * (8192 + 2 * 128) * 2 + 8192 * 128 * 2)),
    case("nemotron-3-nano-30b-a3b", kv(6, 2, 128), state=23 * MAMBA_2_NANO),
    case("jamba-1.5-mini", kv(4, 8, 128), state=28 * 8192 * (3 + 16) * 2),
    case("falcon-h1-7b", kv(44, 2, 128), state=44 * (3 * (3072 + 2 * 256) + 3072 * 256) * 2),
    case("bamba-9b", kv(3, 8, 128), state=29 * (3 * (8192 + 2 * 128) + 8192 * 128) * 2),
    case("mamba2-2.7b", 0, state=64 * (3 * (5120 + 2 * 128) + 5120 * 128) * 2),
    case("lfm2-1.2b", kv(6, 8, 64), state=10 * 2 * 2048 * 2),
    case("ernie-4.5-21b-a3b", kv(28, 4, 128)),
    case("hunyuan-a13b", kv(32, 8, 128)),
    case("step3", 2 * 61 * 1 * 256 * 2),
    # keys of 192 and values of 128; windowed layers have twice the heads
    case("mimo-v2-flash", 9 * 4 * 320 * 2, 39 * 8 * 320 * 2, 128),
    case("flan-t5-large", kv(24, 16, 64), state=512 * kv(24, 16, 64)),
    case("whisper-large-v3", kv(32, 20, 64), state=1500 * kv(32, 20, 64)),
    case("opt-13b", kv(40, 40, 128)),
    case("chatglm3-6b", kv(28, 2, 128)),
]  # fmt: skip


@pytest.mark.parametrize("expected", CASES, ids=lambda one: one.name)
def test_what_a_sequence_keeps(expected: Case) -> None:
    model = read_config(CONFIGS / f"{expected.name}.json")
    plain = kv_format(model, "bfloat16")
    assert model.kv_bytes_per_token(plain) == expected.token
    assert model.kv_growth_bytes(plain) == expected.growth
    assert model.kv_window_bytes(plain) == expected.windows
    assert model.state_bytes() == expected.state
    length = model.max_position_embeddings  # every window is full by then
    constant = expected.windows + expected.state
    assert model.kv_sequence_bytes(length, plain) == expected.growth * length + constant


def test_every_configuration_is_worked_out() -> None:
    assert sorted(path.stem for path in CONFIGS.glob("*.json")) == sorted(c.name for c in CASES)


@pytest.mark.parametrize(
    ("name", "tp", "conv", "state"),
    [
        # a value head's matrix and its convolution's channels are divided like heads
        ("qwen3.5-27b", 4, 3 * (2 * 16 * 128 + 48 * 128) * 2 // 4, 48 * 128 * 128 * 4 // 4),
        # 8 groups of B and C over 4 GPUs: two each
        ("nemotron-3-nano-30b-a3b", 4, 3 * (64 * 64 + 2 * 8 * 128) * 2 // 4, 64 * 64 * 128),
        # one group: each GPU has it whole
        ("granite-4.0-h-small", 4, 3 * (8192 // 4 + 2 * 128) * 2, 8192 * 128 * 2 // 4),
    ],
)
def test_states_on_each_gpu(name: str, tp: int, conv: int, state: int) -> None:
    model = read_config(CONFIGS / f"{name}.json")
    (group,) = model.states
    assert group.layer_bytes(tp) == conv + state
