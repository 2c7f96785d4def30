"""A policy that keeps a request out of an empty engine is named, not taken for a stopped run."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from sim.model.presets import find_model
from sim.policy.counting.pages import Pages
from sim.policy.manager import Manager, Pool
from sim.policy.spec import Placement, Retained
from sim.run.options import RunOptions
from sim.run.simulation import execute, prepared
from sim.sequence import Sequence
from sim.sweep.hopeless import execute_until_lost
from workloads.errors import InputError
from workloads.schema import Provenance, Trace

BLOCK = 16 * 512 * 1024
"""Of Llama 2 7B: 16 tokens of 512 KiB."""


class Leaking(Pages):
    """Never gives a block back."""

    def release(self, seq: Sequence) -> None:
        held = seq.held
        super().release(seq)
        self.free -= held


class Lying(Pages):
    def longest(self) -> int:
        return 10 * super().longest()


@dataclass(frozen=True)
class Leaks(Placement):
    def place(self, pool: Pool, retained: Retained) -> Manager:
        return Leaking(pool, 16)


@dataclass(frozen=True)
class Lies(Placement):
    def place(self, pool: Pool, retained: Retained) -> Manager:
        return Lying(pool, 16)


def trace(*prompts: int) -> Trace:
    """A second apart, an output of one token each."""
    count = len(prompts)
    return Trace(
        "few",
        np.arange(count, dtype=float),
        np.array(prompts, dtype=np.int64),
        np.ones(count, dtype=np.int64),
        Provenance("x", count),
    )


def options(policy: Placement, **more: Any) -> RunOptions:
    """Ten blocks of KV, and steps of 0.1 s."""
    return RunOptions(
        model="llama-2-7b",
        gpu="a100-40gb",
        cost="fixed:seconds=0.1",
        kv_cache_memory=10 * BLOCK,
        policy=policy,
        **more,
    )


@pytest.mark.parametrize("more", [{}, {"engine": "vllm-0.19"}, {"horizon": 100.0}, {"replicas": 2}])
def test_a_leak_ends_in_one_error(more: dict[str, Any]) -> None:
    """Requests of 60 tokens take four blocks of ten: the third finds two. With two replicas in
    turn it is the third of the first, which is the fifth of all."""
    with pytest.raises(InputError) as caught:
        execute(prepared(trace(*[60] * 8), options(Leaks(), **more)))
    number = 4 if "replicas" in more else 2
    assert f"refuses request {number} in an empty engine for ever (60 tokens" in str(caught.value)


@pytest.mark.parametrize("more", [{"replicas": 2}, {"data_parallel": 2}])
@pytest.mark.parametrize("engine", ["default", "vllm-0.32"])
def test_a_leak_ends_users_too(more: dict[str, Any], engine: str) -> None:
    """Three users over two engines in turn: nobody comes until somebody is answered, and at each
    engine the third request waits for ever."""
    block = 16 * find_model("qwen3-30b-a3b").kv_bytes_per_token()
    given = options(Leaks(), engine=engine, concurrency=3, **more)
    given = replace(given, model="qwen3-30b-a3b", gpu="h200", kv_cache_memory=10 * block)
    with pytest.raises(InputError, match="refuses request 4 in an empty engine for ever"):
        execute(prepared(trace(*[60] * 8), given))


def test_a_longest_that_lies_ends_in_one_error() -> None:
    """200 tokens are more than 160, but less than the 1,600 that it says."""
    for run in (execute, execute_until_lost):
        with pytest.raises(InputError, match="refuses request 1 in an empty engine"):
            run(prepared(trace(60, 200), options(Lies(), slo="e2e_p100=99s")))


@pytest.mark.parametrize("engine", ["default", "vllm-0.19"])
def test_a_horizon_is_no_stall(engine: str) -> None:
    """At 1.5 s two have come and gone, and the third comes at 2 s. At 1.05 s the second is being
    served. 40 tokens in chunks of 10 take 0.4 s: at 3.05 s the fourth is being served."""
    for horizon, prompts in ((1.5, [60] * 3), (1.05, [60] * 3), (3.05, [40] * 40)):
        slow = {"max_num_batched_tokens": 10, "max_num_seqs": 2} if len(prompts) > 3 else {}
        run = execute(
            prepared(trace(*prompts), options(Lies(), horizon=horizon, engine=engine, **slow))
        )
        assert run.requests["status"].iloc[-1] == "unfinished"


def test_users_who_never_ask_are_no_stall() -> None:
    """One user, steps of 0.1 s: ten requests take 1 s, and the run stops at 0.55 s."""
    run = execute(prepared(trace(*[5] * 10), options(Lies(), users=1, horizon=0.55)))
    assert (run.requests["status"] == "unfinished").sum() > 0
