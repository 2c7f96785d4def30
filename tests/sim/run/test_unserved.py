"""The list of requests that can't be served is what the run then refuses and truncates."""

import pytest

from sim import simulate
from sim.run.checks import find_unserved
from sim.run.simulation import prepare
from workloads.synthetic import generate

TRACE = generate(200, 5.0, prompt="uniform:low=10,high=6000", output="uniform:low=1,high=900")


@pytest.mark.parametrize("gib", [1, 16])
@pytest.mark.parametrize("policy", ["paging", "preallocation:reserve=pow2,allocator=buddy"])
def test_the_list_is_what_the_run_does(policy: str, gib: int) -> None:
    options = {
        "model": "llama-2-7b",
        "gpu": "a100-40gb",
        "policy": policy,
        "kv_cache_memory": gib << 30,
    }
    listed = find_unserved(prepare(TRACE, **options))  # type: ignore[arg-type]
    run = simulate(TRACE, **options)  # type: ignore[arg-type]
    status = run.requests["status"]
    assert [row.request for row in listed if not row.served_tokens] == list(
        status.index[status == "refused"]
    )
    assert {row.request: row.served_tokens for row in listed if row.served_tokens} == dict(
        run.requests["generated_tokens"][status == "truncated"]
    )
    assert listed


def test_the_binding_limit_is_named() -> None:
    """1 GiB holds 2,048 tokens of Llama-2-7B, and the last sampled one is never written."""
    small = prepare(TRACE, model="llama-2-7b", gpu="a100-40gb", kv_cache_memory=1 << 30)
    assert "whole cache serves 2,049 tokens" in find_unserved(small)[0].reason
    large = prepare(TRACE, model="llama-2-7b", gpu="a100-40gb", kv_cache_memory=8 << 30)
    assert "longest context is 4,096 tokens" in find_unserved(large)[0].reason
