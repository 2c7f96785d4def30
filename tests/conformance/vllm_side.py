"""Cases through vLLM's own scheduler and KV cache manager, with a runner that samples anything.

Runs under vLLM's Python: a case a line of JSON in, its steps a line of JSON out.
"""

import json
import logging
import os
import sys
from collections import deque
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.update(VLLM_LOGGING_LEVEL="ERROR", OMP_NUM_THREADS="1")

import torch
from vllm import SamplingParams
from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.utils.hashing import sha256
from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
from vllm.v1.core.kv_cache_utils import (
    generate_scheduler_kv_cache_config,
    get_kv_cache_groups,
    get_request_block_hasher,
    init_none_hash,
    resolve_kv_cache_block_sizes,
)
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    SlidingWindowSpec,
)
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

from tests.conformance.case import Case, Step

PATIENCE = 100_000
"""Steps after which a case is taken to be stuck."""

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "vocab_size": 512,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "bfloat16",
}


class Engine:
    """vLLM's scheduler for one case after another; its configuration is made once."""

    def __init__(self) -> None:
        with TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(CONFIG))
            model = ModelConfig(
                model=folder, skip_tokenizer_init=True, dtype="bfloat16", max_model_len=4096
            )
        limits = SchedulerConfig(
            max_num_seqs=8,
            max_num_batched_tokens=64,
            max_model_len=4096,
            enable_chunked_prefill=True,
            async_scheduling=False,
            is_encoder_decoder=False,
        )
        cache = CacheConfig(block_size=16, enable_prefix_caching=True)
        self.config = VllmConfig(model_config=model, scheduler_config=limits, cache_config=cache)
        self.grammars = StructuredOutputManager(self.config)
        init_none_hash(sha256)

    def scheduler(self, case: Case) -> Scheduler:
        """A fresh one with the case's limits."""
        limits, cache = self.config.scheduler_config, self.config.cache_config
        self.config.model_config.max_model_len = limits.max_model_len = case.max_model_len
        limits.max_num_seqs = case.max_num_seqs
        limits.max_num_batched_tokens = case.max_num_batched_tokens
        limits.async_scheduling = case.ahead
        limits.long_prefill_token_threshold = case.long_prefill
        limits.watermark = case.watermark
        cache.block_size, cache.enable_prefix_caching = case.block_size, case.prefix
        cache.num_gpu_blocks = case.blocks + 1  # the null block
        kind = AsyncScheduler if case.ahead else Scheduler
        kept = specs(case)
        cache.kv_cache_layout = None
        resolve_kv_cache_layout(self.config, [["LBNHC"]], list(kept.values()))
        tables = KVCacheConfig(case.blocks + 1, [], get_kv_cache_groups(self.config, kept))
        tables = generate_scheduler_kv_cache_config([tables])
        cache.block_size = min(one.kv_cache_spec.block_size for one in tables.kv_cache_groups)
        sizes = resolve_kv_cache_block_sizes(tables, self.config)
        return kind(
            vllm_config=self.config,
            kv_cache_config=tables,
            structured_output_manager=self.grammars,
            block_size=sizes[0],
            hash_block_size=sizes[1],
        )

    def run(self, case: Case) -> list[Step]:
        """All steps until the last request has left."""
        self.case, self.steps, self.now = case, [], 0
        self.engine = engine = self.scheduler(case)
        self.finished: list[int] = []  # since the last step that did anything
        self.preempted: list[int] = []
        self.evicted = 0
        self._count_evictions()
        todo = deque(self.requests())
        flight: deque[Any] = deque()
        while todo or flight or engine.has_unfinished_requests():
            while todo and todo[0][0] <= self.now and self.wanted():
                engine.add_request(todo.popleft()[1])
            while len(flight) < 1 + case.ahead and engine.has_requests():
                if not (output := self.schedule()).num_scheduled_tokens:
                    engine.update_from_output(output, self.sampled(output))
                    break
                flight.append(output)
            if flight:
                output = flight.popleft()
                engine.update_from_output(output, self.sampled(output))
                self.now += 1
            elif todo:
                self.now = max(self.now, todo[0][0])
            elif engine.has_unfinished_requests():
                raise RuntimeError(f"stuck at step {len(self.steps)}")
            if len(self.steps) > PATIENCE:
                raise RuntimeError("no end")
        return self.steps

    def sampled(self, output: Any) -> ModelRunnerOutput:
        """What a model would give."""
        return sampled(output, self.engine)

    def wanted(self) -> bool:
        """Whether a request may be sent: in a closed loop, when fewer than its users wait."""
        return not self.case.users or len(self.engine.requests) < self.case.users

    def _count_evictions(self) -> None:
        pool = self.engine.kv_cache_manager.block_pool
        evict = pool._maybe_evict_cached_block

        def counted(block: Any) -> bool:
            gone = evict(block)
            self.evicted += gone
            return gone

        pool._maybe_evict_cached_block = counted

    def requests(self) -> list[tuple[int, Request]]:
        """In order of arrival; each output of a prompt is a request, as vLLM fans them out."""
        hasher = (
            get_request_block_hasher(self.case.block_size, sha256) if self.case.prefix else None
        )
        found = []
        for row, tokens in zip(self.case.requests, self.case.prompts(), strict=True):
            if row.prompt >= self.case.max_model_len:  # the front door refuses it
                found += [None] * self.case.samples
                continue
            params = SamplingParams(max_tokens=row.output, ignore_eos=True)
            for _ in range(self.case.samples):
                name = str(len(found))
                found.append(
                    (row.arrival, Request(name, tokens, params, None, block_hasher=hasher))
                )
        return [one for one in found if one]

    def schedule(self) -> Any:
        """Plan a step, and note it down where it does anything."""
        output = self.engine.schedule()
        self.finished += [int(name) for name in output.finished_req_ids]
        self.preempted += [int(name) for name in output.preempted_req_ids or ()]
        if output.num_scheduled_tokens:
            old = output.scheduled_cached_reqs
            found = {int(r.req_id): r.num_computed_tokens for r in output.scheduled_new_reqs}
            for name, tokens in zip(old.req_ids, old.num_computed_tokens, strict=True):
                if name in old.resumed_req_ids:
                    found[int(name)] = tokens
            self.steps.append(
                Step(
                    self.now,
                    {int(name): n for name, n in output.num_scheduled_tokens.items()},
                    found,
                    sorted(self.preempted),
                    sorted(self.finished),
                    self.engine.kv_cache_manager.block_pool.get_num_free_blocks(),
                    self.evicted,
                )
            )
            self.finished, self.preempted = [], []
        return output


def specs(case: Case) -> dict[str, KVCacheSpec]:
    """What each of the case's layers keeps; all take pages of the same size but sparse ones."""
    common = {"block_size": case.block_size, "num_kv_heads": 1}
    half = {**common, "head_size": 1, "dtype": torch.float16}
    found: list[KVCacheSpec] = []
    for window, layers in zip(case.windows, case.layers, strict=True):
        for _ in range(layers):
            if case.sparse:
                found.append(MLAAttentionSpec(**common, head_size=576, dtype=torch.bfloat16))
                found.append(MLAAttentionSpec(**common, head_size=132, dtype=torch.uint8))
            elif window is None:
                found.append(FullAttentionSpec(**half))
            else:
                found.append(SlidingWindowSpec(**half, sliding_window=window))
    state = MambaSpec(
        block_size=case.max_model_len,
        shapes=((case.state_bytes,),),
        dtypes=(torch.int8,),
        page_size_padded=case.block_size * 4 if any(case.layers) else None,
    )
    found += [state] * case.states
    return {f"layer {number}": spec for number, spec in enumerate(found)}


def sampled(output: Any, engine: Scheduler) -> ModelRunnerOutput:
    """A token for each request whose context is complete; no two contexts get the same."""
    names = list(output.num_scheduled_tokens)
    tokens = []
    for name in names:
        request = engine.requests.get(name)
        partial = request is None or (
            starts(output)[name] + output.num_scheduled_tokens[name] < known(request)
        )
        tokens.append([] if partial else [(1 << 41) + (int(name) << 20) + request.num_tokens])
    places = {name: i for i, name in enumerate(names)}
    return ModelRunnerOutput(req_ids=names, req_id_to_index=places, sampled_token_ids=tokens)


def starts(output: Any) -> dict[str, int]:
    """Tokens that each scheduled request had computed before."""
    old = output.scheduled_cached_reqs
    found = {r.req_id: r.num_computed_tokens for r in output.scheduled_new_reqs}
    return found | dict(zip(old.req_ids, old.num_computed_tokens, strict=True))


def known(request: Request) -> int:
    """Tokens of its context; those under way count as there for whoever plans ahead."""
    return request.num_tokens


def main() -> None:
    """Serve the standard input."""
    logging.disable(logging.WARNING)  # of layers that fill groups up
    engine, out = Engine(), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints
    for line in sys.stdin:
        try:
            answer: Any = [asdict(step) for step in engine.run(Case.read(json.loads(line)))]
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
