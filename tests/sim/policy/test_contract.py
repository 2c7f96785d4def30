"""Every policy and composition under the contract: 2,000 generated histories each."""

import pytest

from sim.model.layers import LayerGroup
from sim.policy.laws import FULL, MIXED, WIDE, check_policy

HISTORIES = 2000

SPECS = (
    "preallocation",
    "preallocation:reserve=pow2,allocator=buddy",
    "preallocation:reserve=oracle",
    "preallocation:reserve=max,allocator=buddy,max_len=9",
    "sliding_window:window=8,sinks=2",
    "preallocation:reserve=oracle+sliding_window:window=6,sinks=1+int8",
    "preallocation:max_len=8+top_k:k=6,page=4",
    "growing:start=4",
    "growing:start=3,step=5,allocator=buddy+fp8",
    "growing:start=2+sliding_window:window=8,sinks=1",
    "chunked:chunk_tokens=8",
    "paging:block_size=1",
    "paging:block_size=4,watermark=0.1",
    "paging:block_size=4+sliding_window:window=6,sinks=1",
    "paging:block_size=4+top_k:k=6,page=2+int4",
    "paging:block_size=4+top_k:k=7,mode=evict",
    "paging:block_size=4+prefix",
)
MIXED_SPECS = (
    "paging:block_size=2,layers=unified",
    "paging:block_size=2,layers=capped",
    "paging:block_size=3,layers=capped,watermark=0.1+int8",
    "paging:block_size=2,layers=capped+prefix",
)
WIDE_SPECS = ("virtual", "virtual+sliding_window:window=18,sinks=2")


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        *((spec, FULL) for spec in SPECS),
        *((spec, MIXED) for spec in MIXED_SPECS),
        *((spec, WIDE) for spec in WIDE_SPECS),
    ],
)
def test_contract(spec: str, kind: tuple[LayerGroup, ...]) -> None:
    check_policy(spec, HISTORIES, (kind,))
