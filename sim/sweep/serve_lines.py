"""A configuration as commands that start servers: vLLM's and SGLang's own words for it.

Sources: `vllm serve --help` of vLLM 0.19 and the server arguments of SGLang 0.5. What an engine has
no word for is said, not left out.
"""

import shlex
from typing import NamedTuple

from sim.policy.paging import Paging
from sim.policy.prefix import Prefix
from sim.policy.spec import parts_of
from sim.policy.storage import Fp8
from sim.run.simulation import Setup

SERVED = (Paging, Prefix, Fp8)
"""What of a policy both engines have words for."""


class ServeLines(NamedTuple):
    """One line for each engine, and what they don't say."""

    vllm: str
    sglang: str
    notes: tuple[str, ...]


def serve_lines(setup: Setup) -> ServeLines:
    """The lines that start one replica of the configuration."""
    parts = parts_of(setup.policy)
    paging = next((part for part in parts if isinstance(part, Paging)), None)
    shares = any(isinstance(part, Prefix) for part in parts)
    block = 16 if paging is None else paging.block_size
    limits, model = setup.limits, hub_name(setup)
    vllm = ["vllm", "serve", model]
    sglang = ["python", "-m", "sglang.launch_server", "--model-path", model]
    for value, ours, theirs in (
        (setup.tp, "--tensor-parallel-size", "--tp-size"),
        (limits.max_num_seqs, "--max-num-seqs", "--max-running-requests"),
        (limits.max_num_batched_tokens, "--max-num-batched-tokens", "--chunked-prefill-size"),
        (limits.max_model_len, "--max-model-len", "--context-length"),
        (block, "--block-size", "--page-size"),
    ):
        vllm += [ours, str(value)]
        sglang += [theirs, str(value)]
    if threshold := limits.long_prefill_token_threshold:
        vllm += ["--long-prefill-token-threshold", str(threshold)]
    vllm += ["--gpu-memory-utilization", f"{setup.gpu_memory_utilization:g}"]
    sglang += ["--mem-fraction-static", f"{_static_share(setup):.3f}"]
    notes = _notes(setup)
    stored = any(isinstance(part, Fp8) for part in parts)
    kv = "fp8" if stored else setup.ledger.kv.name
    if kv != "auto":
        vllm += ["--kv-cache-dtype", kv]
        sglang += ["--kv-cache-dtype", {"fp8": "fp8_e4m3"}.get(kv, kv)]
    vllm.append("--enable-prefix-caching" if shares else "--no-enable-prefix-caching")
    if not shares:
        sglang.append("--disable-radix-cache")
    return ServeLines(shlex.join(vllm), shlex.join(sglang), tuple(notes))


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


def _notes(setup: Setup) -> list[str]:
    notes = []
    others = [part for part in parts_of(setup.policy) if not isinstance(part, SERVED)]
    if others:
        notes.append(
            f"{setup.label}: neither engine serves under it; the lines say paging in its place"
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
    return notes
