"""vLLM's own numbers for the families' configurations, recorded by tests/conformance/sizing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.hardware import find_device
from sim.memory.ledger import Ledger, kv_budget
from sim.memory.vllm_blocks import cut_blocks
from sim.model.hf_config import read_config
from sim.policy.counting.pages import Pages
from sim.policy.group_pages import GroupPages
from sim.policy.registry import parse_policy
from sim.sequence import Sequence

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Any] = json.loads(
    (ROOT / "conformance/sizing/vllm-0.32.0.json").read_text(encoding="utf-8")
)
CONFIGS = ROOT / "sim/model/configs"


def ledger_of(name: str) -> Ledger:
    """A GPU whose KV cache is the recorded engine's."""
    return kv_budget(
        read_config(CONFIGS / f"{name}.json"),
        find_device("custom:memory=4096GiB", memory_alone=True),
        kv_cache_memory_bytes=RECORDED["pool_bytes"],
        activation_reserve_bytes=0,
        kv_dtype="bfloat16",
    )


def test_at_least_25_families_are_recorded() -> None:
    models = RECORDED["models"]
    kinds = {json.loads((CONFIGS / f"{name}.json").read_text())["model_type"] for name in models}
    assert RECORDED["vllm"] == "0.32.0"
    assert len(models) >= 25
    assert len(kinds) >= 25


@pytest.mark.parametrize("name", RECORDED["models"])
def test_blocks_groups_pages_tokens_and_concurrency(name: str) -> None:
    theirs, ledger = RECORDED["models"][name], ledger_of(name)
    longest = theirs["max_model_len"]
    # where latent attention runs on a CPU, blocks are of 16 tokens
    size = 16 if theirs["block_size"] == 16 else 32
    caching = (
        theirs["mamba_cache_mode"] == "align" if ledger.model.states else theirs["prefix_caching"]
    )
    cut = cut_blocks(ledger, size, longest, caching)
    assert cut.blocks == theirs["blocks"]
    ours = sorted((group.block_size, group.page_bytes) for group in cut.groups)
    pages = sorted((group["block_size"], group["page_bytes"]) for group in theirs["groups"])
    if len(cut.groups) == 1:  # vLLM adds pages of unequal layers up
        assert cut.block_bytes in {pages[0][1], theirs["groups"][0]["layers"] * pages[0][1]}
        assert ours[0][0] == pages[0][0]
    else:
        assert ours == pages
        widest = max(group["layers"] for group in theirs["groups"])
        assert max(group.layers for group in cut.groups) in {widest, widest + 1}
    in_flight = RECORDED["batched_tokens"] * theirs["concurrent_batches"]
    assert cut.tokens(longest, in_flight) == theirs["tokens"]
    assert cut.concurrency(longest, in_flight) == theirs["concurrency"]


@pytest.mark.parametrize("name", RECORDED["models"])
def test_the_simulators_pool_is_cut_as_the_engines(name: str) -> None:
    """`paging:layers=capped`: as many blocks, and for a request of the longest context as many as
    vLLM's admission asks for, which is never more than its tokens fill or its encoder has."""
    theirs, ledger = RECORDED["models"][name], ledger_of(name)
    longest = theirs["max_model_len"]
    size = 16 if theirs["block_size"] == 16 else 32
    in_flight = RECORDED["batched_tokens"] * theirs["concurrent_batches"]
    pool = replace(ledger.pool(longest), in_flight_tokens=in_flight)
    manager = parse_policy(f"paging:block_size={size},layers=capped").manager(pool)
    assert manager.pieces() is not None
    assert manager.pieces()[0] == theirs["blocks"]  # type: ignore[index]
    groups = cut_blocks(ledger, size, longest, prefix_caching=False).groups
    fills = [
        one.fixed_blocks or min(one.blocks(longest, in_flight), -(-longest // one.block_size))
        for one in groups
    ]
    sequence = Sequence(0, 0, longest, 1)
    manager.admit(sequence)
    if isinstance(manager, GroupPages):
        assert manager.most(longest) == sum(fills)
    else:
        manager.extend(sequence, longest)
        assert isinstance(manager, Pages)
        assert manager.blocks - manager.free == sum(fills)


@pytest.mark.parametrize("name", RECORDED["models"])
def test_parameters_as_vllm_builds_them(name: str) -> None:
    """Equal, but for rows of the vocabulary that vLLM pads, and small vectors of types that say
    their count is not exact."""
    model = read_config(CONFIGS / f"{name}.json")
    theirs = RECORDED["models"][name]["parameters"]
    padding = -model.vocab_size % 64 * model.hidden_size * (2 if model.weights.lm_head else 1)
    known = abs(model.parameters - theirs) <= float(model.weights.slack) * theirs
    assert known or model.parameters + padding == theirs
