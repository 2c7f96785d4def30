"""KV of preempted requests in host memory: whole pages or slots in a row, as many bytes as planned.

All that leaves moves before the step's requests take their memory, all that returns after it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch

from executor.cache.table import Run, Table
from executor.cache.tensors import slot_data
from executor.kernels.pool import KVPool
from executor.work import Work


class _Kept(NamedTuple):
    tokens: int
    parts: list[torch.Tensor]  # one of each tensor that holds a token's KV


class HostPool:
    """What the host keeps for each request, and the bytes that moved in the last step."""

    def __init__(self, pools: Sequence[KVPool], beside: Sequence[torch.Tensor] = ()) -> None:
        """beside: landmarks of each layer's pages or scores of its slots, which move with them."""
        self._data = [*slot_data(pools), *beside]
        self._pinned = self._data[0].device.type == "cuda"
        self._kept: dict[int, _Kept] = {}
        self.moved_bytes = (0, 0)  # out and in

    def clear(self) -> None:
        """Forget all requests."""
        self._kept.clear()

    def follow(self, table: Table, work: Work) -> None:
        """Let the table follow the step's plan, and move what the plan swaps around that."""
        out = sum(self._store(table, request, tokens) for request, tokens in work.swapped_out)
        table.follow(work)
        back = sum(self._load(table, request, found) for request, found in work.swapped_in)
        for chunk in work.chunks:  # found whole where it ran, so that nothing had to move
            self._kept.pop(chunk.request, None)
        self.moved_bytes = out, back

    def _store(self, table: Table, request: int, tokens: int) -> int:
        places = table.moving(request, tokens)
        parts = [self._host(part) for where in places for part in self._parts(where)]
        self._kept[request] = _Kept(tokens, parts)
        return sum(part.nbytes for part in parts)

    def _load(self, table: Table, request: int, found: int) -> int:
        """Bring a request's KV back, without the `found` tokens that admission had already."""
        tokens, parts = self._kept.pop(request)
        if found >= tokens:
            return 0
        places, each = table.moving(request, tokens), len(self._data)
        moved = 0
        for i, where in enumerate(places):
            skip = table.units_there(i, tokens, found)
            mine = parts[i * each : (i + 1) * each]
            if isinstance(where, Run):
                assert not found, "contiguous memory shares no prefixes"
                for data, part in zip(self._data, mine, strict=True):
                    data[0, :, where.start : where.stop] = part.to(data.device, non_blocking=True)
                moved += sum(part.nbytes for part in mine)
                continue
            pages = torch.from_numpy(where[skip:]).to(self._data[0].device, torch.int64)
            for data, part in zip(self._data, mine, strict=True):
                data[pages] = part[skip:].to(data.device, non_blocking=True)
            moved += sum(part[skip:].nbytes for part in mine)
        return moved

    def _parts(self, where: Run | object) -> list[torch.Tensor]:
        if isinstance(where, Run):
            return [data[0, :, where.start : where.stop] for data in self._data]
        pages = torch.as_tensor(where, dtype=torch.int64, device=self._data[0].device)
        return [data[pages] for data in self._data]

    def _host(self, part: torch.Tensor) -> torch.Tensor:
        host = torch.empty(part.shape, dtype=part.dtype, pin_memory=self._pinned)
        return host.copy_(part, non_blocking=True)
