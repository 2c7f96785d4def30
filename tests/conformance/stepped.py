"""The stand-in that samples for a model, held against vLLM's engine stepping a real one.

    .venv/conformance/bin/python -m tests.conformance.stepped [CASES]

Runs under vLLM's Python. The same cases, once with the stand-in and once with a tiny model whose
runner carries out each plan and samples at random: the scheduler's steps must be the same.
"""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1")
os.environ.update(VLLM_LOGGING_LEVEL="ERROR", OMP_NUM_THREADS="1")
os.environ.update(VLLM_CPU_OMP_THREADS_BIND="nobind")

from vllm import LLM
from vllm.v1.outputs import ModelRunnerOutput

from tests.conformance.case import Case, Step
from tests.conformance.compare import difference
from tests.conformance.generate import cases
from tests.conformance.vllm_side import CONFIG, Engine

BLOCK, BLOCKS, LONGEST, SEQS, BUDGET = 32, 400, 512, 16, 512


class Stepped(Engine):
    """The case's scheduler in an engine whose model runs."""

    def __init__(self) -> None:
        super().__init__()
        with TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(CONFIG))
            llm = LLM(
                model=folder, load_format="dummy", skip_tokenizer_init=True, enforce_eager=True,
                dtype="float32", block_size=BLOCK, num_gpu_blocks_override=BLOCKS + 1,
                max_model_len=LONGEST, max_num_seqs=SEQS, max_num_batched_tokens=BUDGET,
                enable_prefix_caching=True, async_scheduling=False, seed=0,
            )  # fmt: skip
        self.llm = llm  # owns the executor
        self.executor = llm.llm_engine.engine_core.engine_core.model_executor

    def sampled(self, output: Any) -> ModelRunnerOutput:
        """What the model gives."""
        given = self.executor.execute_model(output)
        return self.executor.sample_tokens(None) if given is None else given

    def run(self, case: Case) -> list[Step]:
        """As the stand-in's, and the runner forgets all requests in the end."""
        steps = super().run(case)
        self.sampled(self.engine.schedule())
        return steps


class Small(Case):
    """A case of tokens that the tiny model knows; no two blocks of them are equal by chance."""

    def prompts(self) -> list[list[int]]:
        return [[token % CONFIG["vocab_size"] for token in one] for one in super().prompts()]


def fits(case: Case) -> bool:
    """Whether the engine that was opened can run it."""
    return case.block_size == BLOCK and case.blocks <= BLOCKS and case.max_model_len <= LONGEST


def main() -> int:
    """Exit status 1 where a step differs."""
    wanted, same, count, steps, preemptions = int((sys.argv[1:] or ["60"])[0]), 0, 0, 0, 0
    stepped, stand_in = Stepped(), Engine()
    for suite in ("plain", "prefix", "samples"):
        chosen = [case for case in cases(suite, 8 * wanted, 7) if fits(case)][: wanted // 3]
        for case in chosen:
            small = Small(**vars(replace(case)))
            real = stepped.run(small)
            why = difference(real, stand_in.run(small))
            count, same, steps = count + 1, same + (why is None), steps + len(real)
            preemptions += sum(len(step.preempted) for step in real)
            if why:
                print(suite, case.seed, why, flush=True)
    print(f"{same} of {count} cases the same: {steps:,} steps, {preemptions:,} preemptions")
    return int(same != count)


if __name__ == "__main__":
    sys.exit(main())
