"""A configuration as commands that start servers: vLLM's and SGLang's own words for it.

Sources: `vllm serve --help` of vLLM 0.19 and 0.32 and the server arguments of SGLang 0.5. What an
engine has no word for is said, not left out; a policy that no engine has gets no line, for any line
would start something else than what was simulated.
"""

import shlex
from dataclasses import replace
from typing import NamedTuple

from sim.policy.paging import Paging
from sim.policy.prefix import Prefix
from sim.policy.spec import parts_of
from sim.policy.storage import Fp8
from sim.run.options import RunOptions
from sim.run.simulation import Setup, prepared
from sim.sweep.serve_differences import (
    blocks,
    engine_parameters,
    knows_watermark,
    layers,
    modifiers,
    paging_of,
    paging_options,
    sglang_takes,
    vllm_takes,
    without_groups,
)
from workloads.schema import Trace

SERVED = (Paging, Prefix, Fp8)
"""What of a policy both engines have words for."""

VLLM_KV = {"fp16": "float16", "bf16": "bfloat16", "int8": "int8_per_token_head"}
"""Ours that it calls otherwise; for `int8_fp16` and `float32` it has no word."""
SGLANG_KV = {"fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2",
             "bf16": "bfloat16", "bfloat16": "bfloat16"}  # fmt: skip
"""All that it has a word for."""


class ServeLines(NamedTuple):
    """One line for each engine, None where none has the policy, and what they don't say."""

    vllm: str | None
    sglang: str | None
    notes: tuple[str, ...]


def startable(trace: Trace, options: RunOptions) -> tuple[RunOptions, Setup]:
    """The options with a longest context that a server would start with, and what they decide.

    vLLM and SGLang refuse one whose KV the cache can't hold. Raises InputError as `prepared` does.
    """
    setup = prepared(trace, options)
    if _unserved(setup):
        return options, setup
    longest = setup.manager().longest()
    if longest >= setup.limits.max_model_len:
        return options, setup
    options = replace(options, max_model_len=longest)
    return options, prepared(trace, options)


def serve_lines(setup: Setup, kv_cache_memory_bytes: int | None = None) -> ServeLines:
    """The lines that start one replica of the configuration; with a KV cache of that size, where
    it isn't what the utilisation leaves."""
    notes = _notes(setup)
    if _unserved(setup):
        return ServeLines(None, None, tuple(notes))
    for differs in (blocks, layers, paging_options, modifiers, engine_parameters):
        notes += differs(setup)
    parts = parts_of(setup.policy)
    shares = any(isinstance(part, Prefix) for part in parts)
    limits, model = setup.limits, hub_name(setup)
    vllm = ["vllm", "serve", model]
    sglang = ["python", "-m", "sglang.launch_server", "--model-path", model]
    for value, ours, theirs in (
        (setup.tp, "--tensor-parallel-size", "--tp-size"),
        (limits.max_num_seqs, "--max-num-seqs", "--max-running-requests"),
        (limits.max_num_batched_tokens, "--max-num-batched-tokens", "--chunked-prefill-size"),
        (limits.max_model_len, "--max-model-len", "--context-length"),
        (paging_of(setup).block_size, "--block-size", "--page-size"),
    ):
        vllm += [ours, str(value)]
        sglang += [theirs, str(value)]
    if threshold := limits.long_prefill_token_threshold:
        vllm += ["--long-prefill-token-threshold", str(threshold)]
    if kv_cache_memory_bytes is None:
        vllm += ["--gpu-memory-utilization", f"{setup.gpu_memory_utilization:g}"]
    else:
        vllm += ["--kv-cache-memory-bytes", str(kv_cache_memory_bytes)]
    sglang += ["--mem-fraction-static", f"{_static_share(setup):.3f}"]
    stored = any(isinstance(part, Fp8) for part in parts)
    kv = "fp8" if stored else setup.ledger.kv.name
    if kv in ("int8_fp16", "float32"):
        notes.append(f"KV in {kv}: vLLM has no word")
    elif kv != "auto":
        vllm += ["--kv-cache-dtype", VLLM_KV.get(kv, kv)]
    if kv in SGLANG_KV:
        sglang += ["--kv-cache-dtype", SGLANG_KV[kv]]
    elif kv != "auto":
        notes.append(f"KV in {kv}: SGLang has no word")
    vllm.append("--enable-prefix-caching" if shares else "--no-enable-prefix-caching")
    if not shares:
        sglang.append("--disable-radix-cache")
    if without_groups(setup):
        vllm.append("--disable-hybrid-kv-cache-manager")
        sglang.append("--disable-hybrid-swa-memory")
    if (watermark := paging_of(setup).watermark) and knows_watermark(setup):
        vllm += ["--watermark", f"{watermark:g}"]
    return ServeLines(
        shlex.join(vllm) if vllm_takes(setup) else None,
        shlex.join(sglang) if sglang_takes(setup) else None,
        tuple(notes),
    )


def hub_name(setup: Setup) -> str:
    """What a server is asked to load: the hub's name of a preset, else the model's own."""
    site, _, rest = setup.model.source.partition("/")
    if site == "huggingface.co":
        return "/".join(rest.split()[0].split("/")[:2])
    return setup.model.name


def _static_share(setup: Setup) -> float:
    """SGLang's share is of weights and KV alone."""
    lines = setup.ledger.lines
    weights = sum(line.size_bytes for line in lines if "weight" in line.name)
    return (weights + setup.pool.capacity_bytes) / setup.device.memory_bytes


def _unserved(setup: Setup) -> bool:
    """Whether a part is none of ours: what a stranger makes of one of them decides otherwise."""
    return not all(type(part) in SERVED for part in parts_of(setup.policy))


def _notes(setup: Setup) -> list[str]:
    notes = []
    limits, longest = setup.limits, setup.model.max_position_embeddings
    if _unserved(setup):
        notes.append(f"{setup.label}: neither engine serves under it, so there is no line for it")
    elif limits.max_model_len == setup.manager().longest() < longest:
        notes.append(
            f"a context of {limits.max_model_len:,} tokens is the longest that the KV cache holds; "
            f"with the model's own {longest:,} no server would start"
        )
    if setup.replicas > 1:
        notes.append(
            f"{setup.replicas} such servers, each on {setup.tp} × {setup.device.name}, behind a "
            f"{setup.router} router"
        )
    if threshold := setup.limits.long_prefill_token_threshold:
        notes.append(f"chunks of at most {threshold} tokens of long prompts: SGLang has no word")
    if setup.limits.batching != "continuous":
        notes.append(f"{setup.limits.batching} batching: neither engine has it")
    if setup.limits.pressure.preemption != "recompute":
        notes.append("preemption by swap: vLLM V1 and SGLang recompute")
    if (victim := setup.limits.pressure.victim) != "last":
        notes.append(
            f"the request of {victim} context gives way (--victim): vLLM V1 takes the one admitted "
            "last, SGLang one by a rule of its own"
        )
    return notes
