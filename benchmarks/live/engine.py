"""vLLM in process, with weights at random: serves requests, and between them times synthetic steps.

Runs under vLLM's Python, so it imports nothing of kvtwin: a job a line of JSON in, what happened a
line of JSON out. One thread computes. Its CPU time is the engine's clock, which stands still while
others have the core, and jumps to the next arrival where nothing is left to do. With `wall` as an
argument the clock is the wall's, to foretell a server by.
"""

import json
import os
import random
import sys
from heapq import heappop, heappush
from math import sqrt
from time import perf_counter, thread_time
from typing import Any

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_CPU_KVCACHE_SPACE="1")
os.environ.update(VLLM_LOGGING_LEVEL="ERROR", OMP_NUM_THREADS="1")
os.environ.update(VLLM_CPU_OMP_THREADS_BIND="nobind")

import vllm
from vllm import LLM, SamplingParams
from vllm.sampling_params import RequestOutputKind

CLOCK = perf_counter if "wall" in sys.argv else thread_time
REPEATS = 3
"""Decode steps that a visit times, after one that brings the requests in."""


class Engine:
    """One engine and what its scheduler decided."""

    def __init__(self, folder: str, blocks: int, limits: dict[str, Any]) -> None:
        llm = LLM(
            model=folder, load_format="dummy", skip_tokenizer_init=True, enforce_eager=True,
            num_gpu_blocks_override=blocks, async_scheduling=False, seed=0, **limits,
        )  # fmt: skip
        self.engine = llm.llm_engine
        self.scheduler = self.engine.engine_core.engine_core.scheduler
        self.vocabulary = llm.model_config.get_vocab_size()
        self.log: list[dict[str, Any]] = []
        schedule = self.scheduler.schedule

        def noted(*given: Any, **named: Any) -> Any:
            output = schedule(*given, **named)
            self._note(output)
            return output

        self.scheduler.schedule = noted

    def _note(self, output: Any) -> None:
        old = output.scheduled_cached_reqs
        known = dict(zip(old.req_ids, old.num_computed_tokens, strict=True))
        found = {r.req_id: r.num_computed_tokens for r in output.scheduled_new_reqs}
        found |= {name: tokens for name, tokens in known.items() if name in old.resumed_req_ids}
        self.log.append(
            {
                "tokens": _own(output.num_scheduled_tokens),
                "found": _own(found),
                "preempted": sorted(name.split("-")[0] for name in output.preempted_req_ids or ()),
            }
        )

    def add(self, name: str, tokens: list[int], output: int) -> None:
        """A request for so many tokens; it never ends sooner."""
        self.engine.add_request(
            name,
            {"prompt_token_ids": tokens},
            SamplingParams(
                temperature=0, max_tokens=output, ignore_eos=True, detokenize=False,
                output_kind=RequestOutputKind.DELTA,
            ),
        )  # fmt: skip

    def step(self) -> list[Any]:
        """One step of the engine; what it gave to whom."""
        return list(self.engine.step())


def _own(counts: dict[str, int]) -> dict[str, int]:
    """By the names that were given; the engine adds something random of its own."""
    return {name.split("-")[0]: count for name, count in counts.items()}


class Bench:
    """Synthetic steps of an engine of its own, the cheap ones more often."""

    def __init__(self, engine: Engine, points: list[tuple[str, int, int]]) -> None:
        self.engine = engine
        self._named = 0
        shuffled = random.Random(0).sample(points, len(points))
        self._turns = [(i * 1e-6, point) for i, point in enumerate(shuffled)]
        self.times: dict[tuple[str, int, int], list[float]] = {point: [] for point in points}

    def spend(self, seconds: float) -> None:
        """Visit points for about so long."""
        while seconds > 0:
            turn, point = heappop(self._turns)
            began = CLOCK()
            self.times[point].append(self._visit(*point))
            took = CLOCK() - began
            seconds -= took
            heappush(self._turns, (turn + sqrt(took), point))

    def _visit(self, kind: str, x: int, y: int) -> float:
        """Seconds of a step that decodes `x` contexts of `y` tokens, or that prefills `x` tokens
        after `y`. What lies in the cache before is left as it is: it costs the same."""
        engine, names = self.engine, []
        batch, past, new, steps = (x, y - 2, 1, 1 + REPEATS) if kind == "decode" else (1, y, x, 1)
        for _ in range(batch):
            self._named += 1
            names.append(f"synthetic {self._named}")
            tokens = [random.randrange(engine.vocabulary) for _ in range(past + new)]
            engine.add(names[-1], tokens, steps + 1)
        for request in engine.scheduler.requests.values():
            request.num_computed_tokens = past  # as if a KV connector had brought them
        times = []
        for _ in range(steps):
            began = CLOCK()
            engine.step()
            times.append(CLOCK() - began)
            assert sum(engine.log[-1]["tokens"].values()) == batch * new, engine.log[-1]
        engine.engine.abort_request(names, internal=False)
        engine.step()  # clears them away
        return sum(times[1:]) / REPEATS if kind == "decode" else times[0]


def serve(engine: Engine, bench: Bench | None, job: dict[str, Any]) -> dict[str, Any]:
    """Serve the job's requests; after every `slice_s` of work, time synthetic steps `pause_s`."""
    rows = job["requests"]
    engine.engine.reset_prefix_cache()
    engine.log.clear()
    stamps = [{"queued": 0.0, "first": 0.0, "last": 0.0, "tokens": 0} for _ in rows]
    steps: list[dict[str, Any]] = []
    clock = worked = 0.0
    asked = 0
    while asked < len(rows) or engine.engine.has_unfinished_requests():
        if not engine.engine.has_unfinished_requests():
            clock = max(clock, rows[asked]["arrival"])
        began = CLOCK()
        while asked < len(rows) and rows[asked]["arrival"] <= clock:
            engine.add(str(asked), rows[asked]["tokens"], rows[asked]["output"])
            stamps[asked]["queued"] = clock + CLOCK() - began
            asked += 1
        seen = len(engine.log)
        outputs = engine.step()
        took = CLOCK() - began
        steps += [{"start": clock, "took": took, **noted} for noted in engine.log[seen:]]
        clock += took
        for output in outputs:
            stamp, tokens = stamps[int(output.request_id)], len(output.outputs[0].token_ids)
            if tokens and not stamp["tokens"]:
                stamp["first"] = clock
            stamp["tokens"] += tokens
            stamp["last"] = clock
        worked += took
        if bench and worked >= job["slice_s"]:
            worked = 0.0
            bench.spend(job["pause_s"])
    return {"requests": stamps, "steps": steps}


def main() -> None:
    """The first line opens the engines; each further line is a job."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever vLLM prints
    asked = json.loads(sys.stdin.readline())
    model, limits = asked["model"], asked["limits"]
    bare = Engine(model, asked["bench_blocks"], limits)
    live: dict[int, Engine] = {}  # by the number of blocks
    points = [tuple(point) for point in asked["points"]]
    Bench(bare, points).spend(asked["warm_s"])
    print(json.dumps({"vllm": vllm.__version__}), file=out, flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        answer: dict[str, Any] = {}
        bench = Bench(bare, points)
        if "requests" in job:
            if (blocks := job["blocks"]) not in live:
                live[blocks] = Engine(model, blocks, limits)
                serve(live[blocks], None, {**job, "requests": job["requests"][:3]})  # warms up
            answer = serve(live[blocks], bench if job["pause_s"] else None, job)
        while job["pause_s"] and not all(bench.times.values()):
            bench.spend(job["pause_s"])
        answer["points"] = [[*point, times] for point, times in bench.times.items()]
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
