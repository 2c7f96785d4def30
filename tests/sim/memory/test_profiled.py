"""Ledgers by an engine's version against public logs, and their parts worked out by hand."""

import pytest

from sim.hardware import find_device
from sim.memory.ledger import Ledger, kv_budget
from sim.memory.profiled import VLLM_0_19, VLLM_0_32, captured_graphs
from sim.model.presets import find_model

GIB, MIB = 2**30, 2**20


def lines(ledger: Ledger) -> dict[str, int]:
    return {line.name: line.size_bytes for line in ledger.lines}


@pytest.mark.parametrize(
    ("max_num_seqs", "mixed", "decodes"), [(256, 51, 35), (512, 51, 51), (8, 5, 4), (1, 2, 1)]
)
def test_as_many_graphs_as_the_log_counts(max_num_seqs: int, mixed: int, decodes: int) -> None:
    """vLLM 0.21 at 256 sequences: "PIECEWISE=51 (largest=512), FULL=35 (largest=256)" (LMCache
    issue 3430). Of 8: 1, 2, 4, 8, 16 and 1, 2, 4, 8."""
    assert captured_graphs(max_num_seqs) == mixed + decodes


def test_llama_on_an_rtx_4090_with_128_sequences() -> None:
    """vLLM 0.19, about 2,950 blocks of 2 MiB (fitted). 128 × 128,256 logits × 14 B, 128 rows of
    128,256 × 4 B, and 0.22 GiB: 295,501,824 + 236,223,201 B beside weights and rotary table."""
    ledger = kv_budget(
        find_model("llama-3.1-8b"), find_device("rtx-4090"), max_num_seqs=128, profiled=VLLM_0_19
    )
    held = 16_060_522_496 + 33_554_432 + 295_501_824 + 236_223_201
    assert ledger.kv_bytes == int(25_250_627_584 * 0.9) - held
    assert ledger.kv_bytes // (2 * MIB) == pytest.approx(2950, rel=0.02)


def test_the_run_of_256_sequences_is_missed() -> None:
    """The recorded run has 2,588 blocks; the rules of a warm start say 8 % more."""
    ledger = kv_budget(find_model("llama-3.1-8b"), find_device("rtx-4090"), profiled=VLLM_0_19)
    assert 1.07 < ledger.kv_bytes // (2 * MIB) / 2588 < 1.09


def test_gpt_oss_on_an_a100() -> None:
    """vLLM 0.19, 65 % of the memory: "Model loading took 13.72 GiB", "Available KV cache memory:
    36.56 GiB". Marlin pads experts of 2,880 × 2,880 to 3,072 × 2,944. Nothing was fitted to it."""
    ledger = kv_budget(
        find_model("gpt-oss-20b"),
        find_device("a100-80gb"),
        gpu_memory_utilization=0.65,
        profiled=VLLM_0_19,
    )
    found = lines(ledger)
    experts = 24 * 32 * 3 * 2880 * 2880 * 17 // 32
    assert found["padding"] == experts * (3072 * 2944) // (2880 * 2880) - experts
    loaded = found["weights"] + found["padding"] + found["rotary table"]
    assert loaded / GIB == pytest.approx(13.72, rel=0.005)
    assert ledger.kv_bytes / GIB == pytest.approx(36.56, rel=0.01)


def test_qwen3_8b_on_an_rtx_a5000() -> None:
    """vLLM 0.21, 97.64 % of the memory, 6.37 GiB of KV. The log's two utilizations, 0.0221 apart
    for 0.52 GiB of graphs, make the device 23.5 GiB, give or take 0.3; 23.57 is taken."""
    ledger = kv_budget(
        find_model("qwen3-8b"),
        find_device("custom:memory=23.57GiB", memory_alone=True),
        gpu_memory_utilization=0.9764,
        profiled=VLLM_0_32,
    )
    assert lines(ledger)["CUDA graphs"] / GIB == pytest.approx(0.52, abs=0.005)
    assert ledger.kv_bytes / GIB == pytest.approx(6.37, rel=0.02)


@pytest.mark.parametrize(
    ("gpu", "tp", "expected_mib"), [("h100", 1, 0), ("h100", 4, 394), ("l40s", 2, 104)]
)
def test_buffers_between_gpus(gpu: str, tp: int, expected_mib: int) -> None:
    """24 MiB of the custom all-reduce and NCCL's own; less over PCIe than over NVLink."""
    ledger = kv_budget(find_model("llama-3.1-8b"), find_device(gpu), tp=tp, profiled=VLLM_0_32)
    assert lines(ledger).get("communication", 0) == expected_mib * MIB


def test_hopper_pads_no_mxfp4_and_the_vocabulary_goes_to_multiples_of_64() -> None:
    """OPT's 50,272 rows become 50,304."""
    hopper = kv_budget(find_model("gpt-oss-20b"), find_device("h100"), profiled=VLLM_0_32)
    assert "padding" not in lines(hopper)
    opt = find_model("opt-13b")
    found = lines(kv_budget(opt, find_device("h100"), profiled=VLLM_0_32))
    assert opt.vocab_size == 50_272
    assert found["padding"] == 32 * 5120 * 2  # the output projection is the table itself


def test_given_sizes_win() -> None:
    ledger = kv_budget(
        find_model("llama-3.1-8b"),
        find_device("h100"),
        tp=2,
        non_torch_bytes=GIB,
        cuda_graph_bytes=2 * GIB,
        all_reduce_bytes=3 * GIB,
        profiled=VLLM_0_32,
    )
    found = lines(ledger)
    assert found["CUDA context"] == GIB
    assert found["CUDA graphs"] == 2 * GIB
    assert found["communication"] == 3 * GIB
