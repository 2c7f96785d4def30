"""Engine presets by name, with parameters changed by name."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim.hardware import find_device
from sim.model.presets import find_model
from sim.policy.manager import Pool
from sim.policy.paging import Paging
from sim.policy.prefix import Prefix
from sim.policy.registry import parse_policy
from sim.policy.spec import Composition, Policy
from sim.run.engine_presets import ENGINES, SOURCES, find_engine, parameters, server_limits
from sim.run.simulation import execute, prepare
from sim.sequence import Sequence
from workloads import read_trace
from workloads.errors import InputError
from workloads.transform import first


def test_every_parameter_has_a_source() -> None:
    for engine in ENGINES.values():
        assert set(parameters(engine)) == set(SOURCES)


def test_parameters_change_by_name() -> None:
    changed = find_engine("vllm-0.19:async_scheduling=false,kernel_overlap_s=3e-5,null_blocks=2")
    assert not changed.rules.async_scheduling
    assert changed.kernels.kernel_overlap_s == 3e-5
    assert changed.null_blocks == 2
    assert changed.prefix_caching  # as in the preset
    assert changed.name == "vllm-0.19:async_scheduling=false,kernel_overlap_s=3e-5,null_blocks=2"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("vllm-0.18", "did you mean 'vllm-0.19'"),
        ("vllm-0.19:async=true", "no parameter 'async'; did you mean"),
        ("vllm-0.19:async_scheduling=yes", "expected true or false"),
        ("vllm-0.19:padded_to=-1", "at least 0"),
        ("vllm-0.19:host_overhead_s=slow", "expected a number"),
    ],
)
def test_what_is_not_known_is_one_line(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_engine(spec)


@pytest.mark.parametrize(
    ("device", "limits"),
    [
        ("h100", (1024, 8192)),
        ("a100-80gb", (256, 2048)),  # named apart, whatever its memory
        ("a100-40gb", (256, 2048)),
        ("custom:memory=180GiB,bandwidth=8TB/s,flops=2000TFLOP/s", (1024, 16_384)),
        ("custom:memory=69GiB,bandwidth=2TB/s,flops=900TFLOP/s", (256, 2048)),
    ],
)
def test_limits_of_vllms_server_by_device(device: str, limits: tuple[int, int]) -> None:
    """vLLM 0.32 engine/arg_utils.py: from 160 GiB, from 70 GiB but on an A100, below."""
    assert server_limits(find_device(device)) == limits
    assert find_engine("vllm-0.32").limits(find_device(device)) == limits


def test_limits_that_are_given_win_and_default_stays_small() -> None:
    """A batch isn't larger than its tokens: vLLM takes the smaller where nobody gave it."""
    h100 = find_device("h100")
    vllm = find_engine("vllm-0.32")
    assert vllm.limits(h100, seqs=64) == (64, 8192)
    assert vllm.limits(h100, tokens=512) == (512, 512)
    assert find_engine("default").limits(h100) == (256, 2048)
    assert find_engine("vllm-0.32:device_limits=false").limits(h100) == (256, 2048)


def test_the_default_follows_the_newest() -> None:
    """Its steps, planned one after another and without prefix caching."""
    newest, default = find_engine("vllm"), find_engine("default")
    assert default.rules == replace(newest.rules, async_scheduling=False)
    assert default.kernels == newest.kernels
    assert (default.prefix_caching, default.null_blocks) == (False, 0)


def test_vllm_without_a_version_is_the_newest() -> None:
    assert find_engine("vllm") is ENGINES["vllm-0.32"]


@pytest.mark.parametrize(("model", "blocks"), [("gemma-3-27b", 9830), ("gpt-oss-20b", 32_768)])
def test_windowed_layers_have_tables_of_their_own(model: str, blocks: int) -> None:
    """As many blocks as vLLM 0.32 cuts 24 GiB into (tests/conformance/sizing), less the null block,
    and its prefix cache over them; where layers store unequal bytes, paging stays as it was."""
    trace = first(read_trace("azure-2023-conv"), 2)
    options = {
        "gpu": "custom:memory=4096GiB,bandwidth=1TB/s,flops=100TFLOP/s",
        "max_model_len": 16_384,
    }
    setup = prepare(
        trace, model=model, engine="vllm-0.32:block_size=32", policy="paging",
        kv_cache_memory="24GiB", **options,
    )  # fmt: skip
    assert setup.policy == Paging(32, layers="capped") + Prefix("blank")
    pieces = setup.policy.manager(setup.pool).pieces()
    assert pieces is not None
    assert pieces[0] == blocks - 1
    plain = prepare(trace, model=model, engine="vllm-0.19", policy="paging", **options)
    assert plain.policy == Paging(16) + Prefix("oldest")


def test_layers_of_unequal_bytes_stay_whole() -> None:
    trace = first(read_trace("azure-2023-conv"), 2)
    model = str(Path(__file__).parents[1] / "model/configs/gemma-4-26b-a4b.json")
    setup = prepare(trace, model=model, gpu="h200", engine="vllm-0.32", policy="paging")
    assert setup.policy == Paging(16) + Prefix("blank")


@pytest.mark.parametrize(("engine", "found"), [("vllm-0.19", 2), ("vllm-0.32", 4)])
def test_the_order_of_reuse_decides_without_shared_prompts(engine: str, found: int) -> None:
    """Six blocks of 2 tokens. The first request, of 4 tokens, is preempted, and then the second, of
    3, lets go of a full block and one without contents. The third takes three blocks.

    Two were never used. The next is the oldest, the tail of the first request's own (vLLM 0.19), or
    the one without contents (0.32): resumed with 5 tokens it finds 2 of its own, or all 4.
    """
    preset = find_engine(f"{engine}:block_size=2")
    policy = preset.adapt(parse_policy("paging"), "paging", find_model("llama-2-7b"))
    manager = policy.manager(Pool(6 * 2, 1, 64))
    first_one, second, third = (Sequence(i, 0, n, 9) for i, n in enumerate((4, 3, 6)))
    for seq in (first_one, second):
        manager.admit(seq)
        manager.extend(seq, seq.target)
    manager.release(first_one)
    manager.release(second)
    manager.admit(third)
    manager.extend(third, 6)
    first_one.target = 5
    assert manager.found(first_one) == found


def test_without_preemptions_and_shared_prompts_it_decides_nothing() -> None:
    trace = first(read_trace("azure-2023-conv"), 40)
    own, blank = (
        execute(
            prepare(trace, model="llama-2-7b", gpu="a100-80gb", policy="paging", engine=engine)
        ).log.requests
        for engine in ("vllm-0.19", "vllm-0.19:oldest_first=false")
    )
    assert not own["preemptions"].any()
    assert {name: column.tobytes() for name, column in own.items()} == {
        name: column.tobytes() for name, column in blank.items()
    }


@pytest.mark.parametrize(
    ("engine", "spec", "reuse"),
    [
        ("vllm-0.19", "paging", "oldest"),
        ("vllm-0.19", "paging+prefix", "oldest"),
        ("vllm-0.19", "paging:block_size=32+int8+prefix", "oldest"),
        ("vllm-0.19", "paging+prefix:reuse=blank", "blank"),
        ("vllm-0.19", Paging(16) + Prefix(), "oldest"),
        ("vllm-0.19", Paging(16) + Prefix("blank"), "blank"),
        ("vllm-0.32", "paging+prefix", "blank"),
        ("vllm-0.32", "paging+prefix:reuse=oldest", "oldest"),
        ("default", "paging+prefix", "blank"),
    ],
)
def test_blocks_are_used_again_as_the_engine_does_it_where_nobody_says_how(
    engine: str, spec: str | Policy, reuse: str
) -> None:
    setup = prepare(
        "azure-2023-conv", first=1, model="llama-2-7b", gpu="a100-80gb", engine=engine, policy=spec
    )
    assert isinstance(setup.policy, Composition)
    assert setup.policy.sharing == Prefix(reuse)
