"""The kernel table: its sum by hand, and the law that makes fast-forwarding exact."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import OF_OLDER, find_profile
from sim.cost.kernels.rules import KernelRules, captured_size
from sim.cost.steps.table import read_table
from sim.hardware import find_device
from sim.model.kv_formats import KV_DTYPES
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Chunk, StepPlan
from sim.run.simulation import prepare
from tests.made_up import (
    GEMM_US,
    HEAD_US,
    NORM_US,
    SAMPLER_US,
    attention_us,
    write_model,
    write_profile_folder,
)
from workloads.errors import InputError

LAYERS = 4
DEVICE = find_device("custom:memory=8GiB,bandwidth=1TB/s,flops=100TFLOP/s")


def decode(n: int, context: int, size: int, steps: int = 1, longest: int = 0) -> StepPlan:
    """n decoding requests that see `context` keys together."""
    plan = StepPlan(0, steps, n, context, context * size, n * size, 0, (), (), (), ())
    return plan._replace(longest_context=longest or context // n)


@pytest.fixture(scope="module")
def imaginary(tmp_path_factory: pytest.TempPathFactory) -> KernelTable:
    folder = tmp_path_factory.mktemp("made-up")
    config = write_model(folder)
    profile = read_folder(write_profile_folder(folder / "gpu"), name="imaginary", model=str(config))
    return KernelTable(find_model(str(config)), DEVICE, profile)


def micros(attoseconds: int) -> float:
    return attoseconds / AS_PER_S * 1e6


def fixed_us(padded: int, tile: int) -> float:
    """All but attention, of a step padded to so many tokens in tiles of that size."""
    gemm = GEMM_US + tile / 8
    return LAYERS * (4 * gemm + 2 * NORM_US) + HEAD_US + SAMPLER_US


def test_a_decode_step_by_hand(imaginary: KernelTable) -> None:
    """8 sequences of 100 tokens: matrix products in a tile of 64, attention between 16 and 256."""
    size = 2 * LAYERS * 2 * 64 * 2
    first, growth, _ = imaginary.linear(decode(8, 800, size))
    assert micros(first) == pytest.approx(fixed_us(8, 64) + LAYERS * attention_us(0, 0, 8, 100))
    assert micros(growth) == pytest.approx(LAYERS * 8 / 500)


def test_experts_in_place_of_the_mlp(tmp_path: Path) -> None:
    """One measured `moe` stands for both products; tokens are not rounded up to its tiles."""
    config = write_model(
        tmp_path,
        model_type="mixtral",
        architectures=["MixtralForCausalLM"],
        num_local_experts=8,
        num_experts_per_tok=2,
    )
    folder = write_profile_folder(tmp_path / "gpu", mlp=("moe",))
    profile = read_folder(folder, name="experts", model=str(config))
    model = find_model(str(config))
    assert model.weights.experts
    table = KernelTable(model, DEVICE, profile)
    size = model.kv_bytes_per_token()
    first, _, _ = table.linear(decode(32, 3200, size))
    tiled, experts = GEMM_US + 64 / 8, GEMM_US + 32 / 8
    layer = 2 * tiled + experts + 2 * NORM_US + attention_us(0, 0, 32, 100)
    assert micros(first) == pytest.approx(LAYERS * layer + HEAD_US + SAMPLER_US)


def test_a_chunk_beside_decodes_by_hand(imaginary: KernelTable) -> None:
    """A chunk of 64 behind 256 tokens beside 8 decodes of 256: 72 tokens, a tile of 128."""
    size = 2 * LAYERS * 2 * 64 * 2
    plan = decode(8, 2048, size)._replace(prefill_tokens=64, chunks=(Chunk(9, 256, 64, True),))
    first, growth, valid = imaginary.linear(plan)
    assert (growth, valid) == (0, 1)
    assert micros(first) == pytest.approx(
        fixed_us(72, 128) + LAYERS * attention_us(64, 256, 8, 256)
    )


def test_several_chunks_cost_their_query_key_pairs(imaginary: KernelTable) -> None:
    """64 tokens in two chunks behind 192 and 320 see as many keys as one chunk of 64 behind 240."""
    chunks = (Chunk(1, 192, 32, True), Chunk(2, 320, 32, True))
    two = StepPlan(0, 1, 0, 0, 0, 0, 64, chunks, (), (), ())
    one = two._replace(chunks=(Chunk(1, 240, 64, True), Chunk(2, 0, 0, True)))
    assert imaginary.linear(two)[0] == pytest.approx(imaginary.linear(one)[0])


def test_beyond_the_profile_the_roofline_goes_on_and_says_so(imaginary: KernelTable) -> None:
    """A key read by a sequence takes its bytes over 90 % of 1 TB/s there."""
    size = 2 * LAYERS * 2 * 64 * 2
    unmeasured = "unequal contexts were not measured: batches wait for no longest one"
    assert imaginary.warnings == (unmeasured,)
    near, far = (imaginary.linear(decode(1, k, size))[0] for k in (3000, 4000))
    assert micros(far - near) == pytest.approx(1000 * size / 0.9e12 * 1e6)
    assert imaginary.warnings == (
        unmeasured,
        "outside the profile, by roofline: tokens of a decode's context, 1,952 beyond 2,048",
    )


@pytest.mark.parametrize(
    ("tokens", "padded"), [(1, 1), (3, 4), (5, 8), (9, 16), (257, 272), (512, 512), (513, 513)]
)
def test_graphs_are_captured_as_vllm_does(tokens: int, padded: int) -> None:
    assert captured_size(tokens, 512) == padded


SHIPPED = {
    "rtx-4090-llama-3.1-8b-tp1": ("llama-3.1-8b", "rtx-4090", 1),
    "rtx-pro-6000-qwen3-32b-tp2": ("qwen3-32b", "rtx-pro-6000", 2),
}


def shipped(name: str, *, skew: bool = False) -> KernelTable:
    model, gpu, tp = SHIPPED[name]
    rules = KernelRules(length_skew=skew)
    return KernelTable(find_model(model), find_device(gpu), find_profile(name), tp=tp, rules=rules)


TABLES = {(name, skew): shipped(name, skew=skew) for name in SHIPPED for skew in (False, True)}


@pytest.mark.parametrize("key", TABLES, ids=str)
@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data())
def test_a_repetition_costs_what_the_line_says(key: tuple[str, bool], data: st.DataObject) -> None:
    """The law of `StepCost`: the plan of repetition j is answered with first + j * growth."""
    table = TABLES[key]
    model, _, tp = SHIPPED[key[0]]
    size = find_model(model).kv_bytes_per_token(tp=tp)
    n, most = data.draw(st.tuples(st.integers(1, 300), st.integers(1, 20_000)))
    # Not a list that hypothesis draws: its size would mostly be small, and each number costs.
    drawn = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).integers(1, most + 1, n)
    total, longest = int(drawn.sum()), int(drawn.max())
    first, growth, valid = table.linear(decode(n, total, size, 10_000, longest))
    assert 1 <= valid <= 10_000
    for j in {0, valid - 1, data.draw(st.integers(0, valid - 1))}:
        alone = decode(n, total + j * n, size, 10_000 - j, longest + j)
        at, same, _ = table.linear(alone)
        assert at == first + j * growth
        if j < valid - 1:
            assert same == growth


def test_a_profile_is_for_its_degree_and_its_model() -> None:
    profile = find_profile("rtx-pro-6000-qwen3-32b-tp2")
    device = find_device("rtx-pro-6000")
    with pytest.raises(InputError, match="measured for --tp 2, not 1"):
        KernelTable(find_model("qwen3-32b"), device, profile)
    with pytest.raises(InputError, match="hidden_size 5120"):
        KernelTable(find_model("llama-3.1-8b"), device, profile, tp=2)


def test_measured_points_come_back() -> None:
    """32 sequences of 1,024 keys on the RTX 4090: the profile's own row, times 32 layers, at 96.5 %
    of the time as the profile states it."""
    table = TABLES["rtx-4090-llama-3.1-8b-tp1", False]
    rows = find_profile("rtx-4090-llama-3.1-8b-tp1").rows["attention"]
    time = {row[:4]: row[4] for row in rows}
    size = 131_072
    low, high = (table.linear(decode(32, 32 * k, size))[0] for k in (1024, 2048))
    expected = 0.965 * 32 * (time[0, 0, 32, 2048] - time[0, 0, 32, 1024])
    assert micros(high - low) == pytest.approx(expected, rel=1e-4)


def test_a_kernel_profile_given_as_cost_says_where_it_belongs(tmp_path: Path) -> None:
    file = tmp_path / "mine.parquet"
    file.write_bytes(b"PAR1 and more")
    with pytest.raises(InputError, match=r"expected --profile .*mine\.parquet"):
        read_table(file)


def test_a_profile_of_another_kv_type_is_told(tmp_path: Path) -> None:
    """Measured over a 16-bit cache, it says nothing of one in 8 bits."""
    with pytest.raises(InputError, match=r"measured with a KV cache of 16 bits .*not 8 \(fp8\)"):
        KernelTable(
            find_model("llama-3.1-8b"),
            find_device("rtx-4090"),
            find_profile("rtx-4090-llama-3.1-8b-tp1"),
            kv=KV_DTYPES["fp8"],
        )


@pytest.mark.parametrize("storage", ["fp8", "int8", "int4", "int8:scale=none"])
def test_a_policy_s_storage_is_held_against_the_profile_as_the_option_is(storage: str) -> None:
    """One refusal for both: kernels timed over 16 bits say nothing of fewer."""
    bits, name = ("4", "int4") if storage == "int4" else ("8", storage.partition(":")[0])
    with pytest.raises(InputError, match=rf"KV cache of 16 bits \(auto\), not {bits} \({name}\)"):
        prepare(
            "azure-2023-conv",
            first=20,
            model="llama-3.1-8b",
            gpu="rtx-4090",
            policy=f"paging+{storage}",
            cost="table",
        )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"torch_dtype": "float32"}, "measured with dtype_bytes 2, but model has 4"),
        (
            {"quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic"}},
            "measured with weights_in as computed, but model has .*mlp 8/1",
        ),
    ],
)
@pytest.mark.parametrize("says", [True, False])
def test_a_profile_in_16_bits_is_of_no_other_type(
    tmp_path: Path, changes: dict[str, object], message: str, says: bool
) -> None:
    """A config.json of the same shape in 32 bits, or with weights in 8, has other kernels; and
    profiles that don't say their type were timed in 16 bits."""
    config = write_model(tmp_path / "model")
    profile = read_folder(write_profile_folder(tmp_path / "gpu"), name="x", model=str(config))
    if not says:
        meta = {k: v for k, v in profile.meta.items() if k not in OF_OLDER}
        profile = replace(profile, meta=meta)
    other = find_model(str(write_model(tmp_path / "other" / "model", **changes)))
    with pytest.raises(InputError, match=message):
        KernelTable(other, DEVICE, profile)
    same = read_folder(tmp_path / "gpu", name="x", model=str(tmp_path / "other/model"))
    assert KernelTable(other, DEVICE, same).name == "table"


@pytest.mark.parametrize(
    ("policy", "kv", "message"),
    [
        ("paging+fp8", "auto", None),
        ("paging", "fp8", None),
        ("paging+int8", "auto", r"KV cache of 8 bits \(fp8\), not 8 \(int8\)"),
        ("paging", "auto", r"KV cache of 8 bits \(fp8\), not 16 \(auto\)"),
    ],
)
def test_a_profile_of_8_bits_serves_storage_of_the_same_format(
    tmp_path: Path, policy: str, kv: str, message: str | None
) -> None:
    """Timed over fp8: a policy that stores so is served; int8's scales are another kernel."""
    config = write_model(tmp_path / "model")
    profile = read_folder(write_profile_folder(tmp_path / "gpu"), name="x", model=str(config))
    timed = replace(profile, meta={**profile.meta, "kv_dtype": "fp8"})
    with nullcontext() if message is None else pytest.raises(InputError, match=message):
        setup = prepare(
            "azure-2023-conv",
            first=2,
            model=str(config),
            gpu="custom:memory=8GiB,bandwidth=1TB/s,flops=100TFLOP/s",
            policy=policy,
            kv_cache_dtype=kv,
            profile=timed,
        )
        assert setup.cost().name == "table"
