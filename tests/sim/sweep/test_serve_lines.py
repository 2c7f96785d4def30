"""Every option of a run is in the lines that start servers, in a note, or none of a server's."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pytest

from sim.policy.paging import Paging
from sim.policy.registry import BUILT_IN
from sim.policy.spec import Placement
from sim.run.options import RunOptions
from sim.run.simulation import prepare, prepared
from sim.sweep.answer import answer_lines, answer_record
from sim.sweep.grid import make_grid
from sim.sweep.question import question_of
from sim.sweep.search import Search
from sim.sweep.serve_lines import SERVED, ServeLines, serve_lines
from tests.sim.sweep.test_search import BASE, steady
from workloads.schema import Provenance, Trace

WINDOWS: dict[str, Any] = {"model": "gpt-oss-20b", "gpu": "h100"}

OF_CLIENTS = {
    "request_rate", "first", "columns", "concurrency", "users", "think_time", "prefix_scope",
    "replay", "snapshot_start", "warm_up", "arrivals", "seed", "samples", "horizon", "slo",
}  # fmt: skip
OF_THE_PREDICTION = {"cost", "profile", "price", "watts", "fast_forward"}
OF_THE_MACHINE = {"gpu"}
REFUSED = {"data_parallel"}
"""By a search, which alone prints lines (tests/sim/run/test_lockstep.py)."""

IN_LINES: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "model": ({"model": "gpt-oss-120b"}, "openai/gpt-oss-120b", "openai/gpt-oss-120b"),
    "tp": ({"tp": 2}, "--tensor-parallel-size 2", "--tp-size 2"),
    "max_num_seqs": ({"max_num_seqs": 7}, "--max-num-seqs 7", "--max-running-requests 7"),
    "max_num_batched_tokens": (
        {"max_num_batched_tokens": 4096},
        "--max-num-batched-tokens 4096",
        "--chunked-prefill-size 4096",
    ),
    "gpu_memory_utilization": (
        {"gpu_memory_utilization": 0.8},
        "--gpu-memory-utilization 0.8",
        "--mem-fraction-static",
    ),
    "kv_cache_memory": (
        {"kv_cache_memory": "12GiB"},
        f"--kv-cache-memory-bytes {12 * 2**30}",
        "--mem-fraction-static",
    ),
    "kv_cache_dtype": (
        {"kv_cache_dtype": "fp8"},
        "--kv-cache-dtype fp8",
        "--kv-cache-dtype fp8_e4m3",
    ),
    "policy": (
        {"policy": "paging:layers=capped+prefix"},
        "--enable-prefix-caching",
        None,
    ),
    "long_prefill_token_threshold": (
        {"long_prefill_token_threshold": 256},
        "--long-prefill-token-threshold 256",
        None,
    ),
    "max_model_len": ({"max_model_len": 5000}, "--max-model-len 5000", "--context-length 5000"),
}
"""In vLLM's line, and in SGLang's, or None where a note says that it isn't."""

NOTED: dict[str, tuple[dict[str, Any], str]] = {
    "engine": ({"engine": "vllm-0.32:async_scheduling=false"}, "async_scheduling=false"),
    "batching": ({"batching": "static"}, "static batching"),
    "preemption": ({"preemption": "swap"}, "preemption by swap"),
    "swap_space": ({"preemption": "swap", "swap_space": "8GiB"}, "preemption by swap"),
    "victim": ({"victim": "longest"}, "longest context gives way (--victim)"),
    "replicas": ({"replicas": 2}, "2 such servers"),
    "router": ({"replicas": 2, "router": "session"}, "session router"),
}


def lines_of(**options: Any) -> ServeLines:
    setup = prepared(trace(), RunOptions(**{**WINDOWS, **options}))
    size = RunOptions(**{**WINDOWS, **options}).kv_cache_memory_bytes
    return serve_lines(setup, size)


def trace() -> Trace:
    ones = np.ones(2, dtype=np.int64)
    return Trace("two", np.arange(2.0), 8 * ones, ones, Provenance("x", 2))


def test_every_option_is_placed() -> None:
    placed = [OF_CLIENTS, OF_THE_PREDICTION, OF_THE_MACHINE, REFUSED, set(IN_LINES), set(NOTED)]
    assert sum(len(one) for one in placed) == len(set().union(*placed))
    assert set().union(*placed) == {field.name for field in fields(RunOptions)}


@pytest.mark.parametrize("name", IN_LINES)
def test_options_in_lines(name: str) -> None:
    options, vllm, sglang = IN_LINES[name]
    plain, lines = lines_of(), lines_of(**options)
    assert plain.vllm is not None
    assert lines.vllm is not None
    assert vllm in lines.vllm
    assert vllm not in plain.vllm
    assert lines.sglang is not None
    if sglang is None:
        assert "SGLang" in " ".join(set(lines.notes) - set(plain.notes))
    else:
        assert sglang in lines.sglang
        assert lines.sglang != plain.sglang


@pytest.mark.parametrize("name", NOTED)
def test_options_in_notes(name: str) -> None:
    options, note = NOTED[name]
    assert note in " ".join(lines_of(**options).notes)
    assert note not in " ".join(lines_of().notes)


POLICY_OPTIONS = {
    ("paging", "block_size"): ("paging:block_size=32", "--block-size 32", "--page-size 32"),
    ("paging", "watermark"): ("paging:watermark=0.1", "--watermark 0.1", "watermark=0.1"),
    ("paging", "layers"): (
        "paging:layers=capped",
        "--no-enable-prefix-caching",
        "layers=capped: SGLang divides",
    ),
    ("prefix", "reuse"): (
        "paging+prefix:reuse=oldest",
        "--enable-prefix-caching",
        "prefix:reuse=oldest: as vLLM 0.19",
    ),
    ("fp8", "group"): ("paging+fp8:group=32,scale=fp16", "--kv-cache-dtype fp8", "fp8:group=32"),
    ("fp8", "scale"): ("paging+fp8:scale=fp16", "--kv-cache-dtype fp8", "fp8:scale=fp16"),
    ("fp8", "zero"): ("paging+fp8:zero=fp16", "--kv-cache-dtype fp8", "fp8:zero=fp16"),
}
"""Of the policies that get lines: what vLLM's says, and what SGLang's or a note does."""


def test_every_option_of_a_policy_is_placed() -> None:
    served = {(name, f.name) for name, kind in BUILT_IN.items() if kind in SERVED
              for f in fields(kind)}  # fmt: skip
    assert set(POLICY_OPTIONS) == served
    for name, kind in BUILT_IN.items():
        if kind not in SERVED:
            policy = name if issubclass(kind, Placement) else f"paging+{name}"
            options = {"top_k": ":k=64", "sliding_window": ":window=64"}.get(name, "")
            lines = lines_of(model="llama-3.1-8b", policy=policy + options)
            assert (lines.vllm, lines.sglang) == (None, None)
            assert "so there is no line" in " ".join(lines.notes)


@pytest.mark.parametrize("option", POLICY_OPTIONS)
def test_policy_options_are_said(option: tuple[str, str]) -> None:
    policy, vllm, other = POLICY_OPTIONS[option]
    lines = lines_of(policy=policy)
    assert lines.vllm is not None
    assert lines.sglang is not None
    assert vllm in lines.vllm
    assert other in " ".join([lines.sglang, *lines.notes])
    plain = lines_of()
    assert other not in " ".join([plain.sglang or "", *plain.notes])


@pytest.mark.parametrize("engine", ["default", "vllm-0.19", "vllm-0.32"])
@pytest.mark.parametrize(
    ("policy", "without"),
    [("paging:layers=reserved", True), ("paging:layers=unified", True),
     ("paging:layers=capped", False)],
)  # fmt: skip
def test_windows_are_chosen(engine: str, policy: str, without: bool) -> None:
    """Both engines free what leaves a window unless told otherwise."""
    lines = lines_of(engine=engine, policy=policy)
    assert lines.vllm is not None
    assert lines.sglang is not None
    assert ("--disable-hybrid-kv-cache-manager" in lines.vllm) == without
    assert ("--disable-hybrid-swa-memory" in lines.sglang) == without


@pytest.mark.parametrize(
    ("engine", "model", "without"),
    [
        ("default", "gpt-oss-20b", True),
        ("vllm-0.19", "gpt-oss-20b", True),
        ("vllm-0.32", "gpt-oss-20b", False),  # there plain paging is layers=capped
        ("default", "llama-3.1-8b", False),
    ],
)
def test_plain_paging_says_what_was_simulated(engine: str, model: str, without: bool) -> None:
    line = lines_of(engine=engine, model=model).vllm
    assert line is not None
    assert ("--disable-hybrid-kv-cache-manager" in line) == without


@pytest.mark.parametrize(
    ("model", "size", "vllm", "sglang", "note"),
    [
        ("llama-3.1-8b", 7, False, False, "vLLM takes multiples of 16 on CUDA"),
        ("llama-3.1-8b", 1, False, True, "vLLM takes multiples of 16 on CUDA"),
        ("llama-3.1-8b", 48, True, False, "SGLang takes sizes that divide a chunk, of 2,048"),
        ("llama-3.1-8b", 64, True, True, ""),
    ],
)
def test_sizes_of_blocks_that_are_refused(
    model: str, size: int, vllm: bool, sglang: bool, note: str
) -> None:
    """2,048 is 42 × 48 + 32 and 292 × 7 + 4."""
    lines = lines_of(model=model, policy=f"paging:block_size={size}")
    assert (lines.vllm is not None, lines.sglang is not None) == (vllm, sglang)
    assert note in " ".join(lines.notes)
    assert bool(note) == bool(lines.notes)


def test_sparse_attention_takes_blocks_of_64() -> None:
    options = {"model": "deepseek-v3.2", "tp": 8, "gpu": "b200"}
    assert lines_of(**options).vllm is None
    assert "multiples of 64" in " ".join(lines_of(**options).notes)
    line = lines_of(**options, policy="paging:block_size=64").vllm
    assert line is not None
    assert "--block-size 64" in line


def test_an_older_version_has_no_watermark() -> None:
    lines = lines_of(engine="vllm-0.19", policy="paging:watermark=0.1")
    assert lines.vllm is not None
    assert "--watermark" not in lines.vllm
    assert "watermark=0.1: vLLM 0.19 and SGLang have no word" in lines.notes


def test_a_printed_context_was_simulated_and_fits() -> None:
    """Llama 2's 512 KiB a token: 1,000 MiB are 2,000 tokens, 125 blocks of 16, less than its 4,096.
    A longest context of 4,096 lets no server start."""
    base = RunOptions(
        **BASE, cost="fixed:seconds=0.1", slo="ttft_p100=1s", kv_cache_memory="1000MiB"
    )
    trace = steady(5)
    searched = Search(make_grid(base, {}), trace, question_of("request_rate=1:2", 1)).answer()
    assert searched.best is not None
    assert searched.best.options.max_model_len == 2000
    assert [row["max_model_len"] for row in searched.rows] == [2000] * len(searched.rows)
    record = answer_record(searched, trace)["best"]
    assert "--max-model-len 2000 " in record["vllm"]
    assert "--context-length 2000 " in record["sglang"]
    assert f"--kv-cache-memory-bytes {1000 * 2**20}" in record["vllm"]
    assert "--gpu-memory-utilization" not in record["vllm"]
    assert "with the model's own 4,096 no server would start" in " ".join(record["notes"])
    fits = prepared(trace, RunOptions(**BASE, max_model_len=1000))
    line = serve_lines(fits)
    assert line.vllm is not None
    assert "--max-model-len 1000 " in line.vllm
    assert "--gpu-memory-utilization 0.9" in line.vllm
    assert not line.notes


def test_no_line_for_what_no_engine_serves() -> None:
    lines = serve_lines(prepared(steady(3), RunOptions(**BASE, policy="preallocation")))
    assert (lines.vllm, lines.sglang) == (None, None)
    assert "preallocation: neither engine serves under it" in " ".join(lines.notes)
    base = RunOptions(**BASE, slo="ttft_p100=1s", policy="preallocation")
    searched = Search(make_grid(base, {}), steady(5), question_of("request_rate=1:1", 1)).answer()
    text = "\n".join(answer_lines(searched, steady(5)))
    assert "vllm serve" not in text
    assert answer_record(searched, steady(5))["best"]["vllm"] is None


@pytest.mark.parametrize(
    ("options", "vllm", "sglang", "note"),
    [
        ({"policy": "paging:block_size=32+fp8"}, "--block-size 32", "dtype fp8_e4m3", ""),
        ({"tp": 2, "max_num_seqs": 8}, "--tensor-parallel-size 2", "--max-running-requests 8", ""),
        ({"kv_cache_dtype": "int8"}, "--kv-cache-dtype int8_per_token_head", "sglang",
         "KV in int8: SGLang has no word"),
        ({"kv_cache_dtype": "bf16"}, "dtype bfloat16", "--kv-cache-dtype bfloat16", ""),
        ({"long_prefill_token_threshold": 256}, "--long-prefill-token-threshold 256", "sglang",
         "SGLang has no word"),
        ({"replicas": 3}, "vllm serve", "sglang.launch_server", "3 such servers"),
        ({"batching": "static"}, "vllm", "sglang", "static batching: neither engine has it"),
    ],
)  # fmt: skip
def test_lines_that_start_servers(
    options: dict[str, Any], vllm: str, sglang: str, note: str
) -> None:
    lines = serve_lines(prepared(steady(3), RunOptions(**BASE, **options)))
    assert lines.vllm is not None
    assert lines.sglang is not None
    assert vllm in lines.vllm
    assert sglang in lines.sglang
    assert note in " ".join(lines.notes)
    assert bool(lines.notes) == bool(note)


def test_what_a_stranger_made_of_one_of_ours_has_no_line() -> None:
    """A subclass decides otherwise, whatever it is made from."""

    @dataclass(frozen=True)
    class Mine(Paging):
        """Some other paging."""

    trace = steady(20)
    lines = serve_lines(prepare(trace, **BASE, policy=Mine()))
    assert (lines.vllm, lines.sglang) == (None, None)
    assert lines.notes[0].startswith("mine: neither engine serves under it")
    assert serve_lines(prepare(trace, **BASE, policy=Paging())).vllm is not None
