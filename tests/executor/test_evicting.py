"""`top_k:mode=evict` executed: what H2O says, written out head by head with lists of positions.

Zhang et al., H2O (NeurIPS'23): a token's score is the attention it has drawn so far; of what is
kept half are the newest tokens, and of the others those of greatest score stay, each head for
itself.
"""

from dataclasses import replace

import pytest
import torch

from executor.work import Work
from sim.engine.limits import Pressure
from sim.run.simulation import Setup
from tests.executor.beside import Beside, run_beside
from tests.executor.test_policies_agree import setup

TOKEN = 2 * 2 * (2 * 16 * 4) + 2 * 2 * 4  # bytes: K and V, 2 layers, 2 heads; and a score a head


class PlainEviction:
    """Keeps (position, key, value, score) of each layer, request and head in a list, in fp64."""

    def __init__(self, keep: int) -> None:
        self._keep, self._recent = keep, keep - keep // 2
        self._kept: dict[tuple[int, int, int], list[list[object]]] = {}
        self.evicted = 0

    def begin(self, work: Work) -> None:
        self._work = work

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        out, row = torch.empty_like(q), 0
        k, v = k.double(), v.double()
        decoding = {request for request, _ in self._work.decodes}
        group = q.shape[1] // k.shape[1]
        for request, start, stop in self._work.spans:
            rows = slice(row, row + stop - start)
            row = rows.stop
            for head in range(k.shape[1]):
                kept = self._kept.setdefault((layer, request, head), [])
                if start == 0:
                    kept.clear()
                for i in range(start, stop):
                    at = rows.start + i - start
                    kept.append([i, k[at, head], v[at, head], 0.0])
                if request in decoding:  # there is no room for a token more
                    self._evict(kept, stop)
                keys = torch.stack([one[1] for one in kept])  # type: ignore[misc]
                values = torch.stack([one[2] for one in kept])  # type: ignore[misc]
                positions = torch.tensor([one[0] for one in kept])
                later = positions > torch.arange(start, stop)[:, None, None]
                heads = slice(head * group, (head + 1) * group)
                scores = q[rows, heads].double() @ keys.T * q.shape[2] ** -0.5
                weights = scores.masked_fill(later, float("-inf")).softmax(-1)
                out[rows, heads] = (weights @ values).to(q.dtype)
                for one, weight in zip(kept, weights.sum((0, 1)).tolist(), strict=True):
                    one[3] += weight  # type: ignore[operator]
                self._evict(kept, stop)
        return out

    def _evict(self, kept: list[list[object]], stop: int) -> None:
        while len(kept) > self._keep:
            old = [one for one in kept if one[0] < stop - self._recent]  # type: ignore[operator]
            kept.remove(min(old, key=lambda one: one[3]))  # type: ignore[arg-type,return-value]
            self.evicted += 1


def run(given: Setup, keep: int) -> tuple[Beside, int]:
    """And how many tokens plain eviction let go of."""
    rule = PlainEviction(keep)
    return run_beside(given, rule), rule.evicted


def beside(given: Setup, keep: int) -> Beside:
    found, evicted = run(given, keep)
    assert evicted > 0
    return found


@pytest.mark.parametrize("keep", [1, 2, 15, 40])
@pytest.mark.parametrize("placement", ["paging:block_size=8", "preallocation"])
def test_heads_keep_recent_tokens_and_heavy_hitters(placement: str, keep: int) -> None:
    assert beside(setup(f"{placement}+top_k:k={keep},mode=evict"), keep).worst <= 1e-4


@pytest.mark.parametrize("placement", ["growing:start=4", "chunked:chunk_tokens=64"])
def test_other_placements(placement: str) -> None:
    assert beside(setup(f"{placement}+top_k:k=25,mode=evict"), 25).worst <= 1e-4


def test_under_pressure() -> None:
    given = setup("paging:block_size=8+top_k:k=30,mode=evict", 80 * TOKEN)
    found = beside(given, 30)
    assert found.preempted > 0
    assert found.worst <= 1e-4


def test_swapped() -> None:
    """Scores go to the host and back with what they are of."""
    given = setup("paging:block_size=8+top_k:k=30,mode=evict", 80 * TOKEN)
    limits = replace(given.limits, pressure=Pressure("swap", 1 << 30))
    found = beside(replace(given, limits=limits), 30)
    assert found.swapped > 0
    assert found.worst <= 1e-4


@pytest.mark.parametrize(
    ("storage", "bound"),
    [("int8", 0.1), ("int8:scale=fp16", 0.1), ("fp8", 0.6), ("int4:group=4", 1.2)],
)
def test_quantised(storage: str, bound: float) -> None:
    """Where nothing is evicted, off by what the storage rounds (logits are near 1)."""
    policy = f"paging:block_size=8+{storage}+top_k:mode=evict,k="
    whole, evicted = run(setup(f"{policy}128"), 128)
    assert evicted == 0
    assert whole.worst <= bound
    assert beside(setup(f"{policy}20"), 20).worst < float("inf")
