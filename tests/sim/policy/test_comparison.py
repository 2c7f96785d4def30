"""The table of approaches: sums checked by hand, and the claims that it must correct."""

import json
import subprocess
import sys

import pytest

from sim.memory.approaches import APPROACHES, Row, compare
from sim.model.layers import LayerGroup
from sim.policy.manager import Pool, Stored
from sim.policy.registry import parse_policy

GROUPS = (LayerGroup(32, "full", 8, 128, 128),)  # Llama-3-8B: 131,072 B a token
POOL = Pool(0, 0, 4096, groups=GROUPS).storing((Stored(2048, 2048),))
POOL = Pool(2**34, POOL.token_bytes, 4096, 0, GROUPS, POOL.stored)
LENGTHS = [(1000, 200), (37, 400), (2000, 3)]


@pytest.fixture(scope="module")
def table() -> dict[str, Row]:
    return {
        spec: compare(parse_policy(spec), spec, text, POOL, LENGTHS)
        for spec, text in APPROACHES.items()
    }


@pytest.mark.parametrize("policy", ["paging:block_size=1", "preallocation", "growing:start=64"])
def test_one_request_by_hand(policy: str) -> None:
    """32 prompt + 16 output tokens use 47 slots; decode steps read 33, 34, ... 47 tokens."""
    row = compare(parse_policy(policy), policy, "", Pool(1000, 1, 64), [(32, 16)])
    assert (row.kept_bytes, row.full_bytes) == (47, 47)
    assert row.read_bytes == sum(range(33, 48))


def test_requests_that_cannot_be_served_are_left_out() -> None:
    row = compare(parse_policy("paging"), "", "", Pool(1000, 1, 64), [(32, 16), (60, 6)])
    assert row.requests == 1


def test_placements_keep_the_same_bytes(table: dict[str, Row]) -> None:
    tokens = sum(prompt + output - 1 for prompt, output in LENGTHS)
    for spec in list(APPROACHES)[:6]:
        assert table[spec].kept_bytes == tokens * 131_072, spec
        assert table[spec].compression == 1


def test_at_most_four_times_is_less_with_scales(table: dict[str, Row]) -> None:
    """A 16-bit scale and zero point for 32 elements: 16 / (4 + 1) = 3.2 times."""
    assert table["paging:block_size=16+int4"].compression == pytest.approx(3.2)
    assert table["paging:block_size=16+int8"].compression == pytest.approx(16 / (8 + 32 / 128))
    assert table["paging:block_size=16+int4"].metadata_bytes > 0


def test_selection_saves_reads_and_eviction_memory(table: dict[str, Row]) -> None:
    full = table["paging:block_size=16"]
    select = table["paging:block_size=16+top_k:k=256"]
    evict = table["paging:block_size=16+top_k:k=256,mode=evict"]
    assert select.compression < 1 < evict.compression
    assert select.read_bytes < full.read_bytes / 2
    assert evict.read_bytes < full.read_bytes / 2


def test_each_approach_says_what_it_gives_up_on_the_command_line() -> None:
    command = [sys.executable, "-m", "sim.cli", "compare-policies", "azure-2023-conv", "--first"]
    options = ["3", "--model", "llama-3-8b", "--gpu", "a100-40gb", "--json"]
    printed = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    rows = json.loads(printed.stdout)
    assert [row["policy"] for row in rows] == list(APPROACHES)
    assert all(row["gives_up"] for row in rows)
