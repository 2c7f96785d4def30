"""Decoding requests read the pages that their landmarks promise most of (Tang et al., Quest)."""

from collections.abc import Sequence
from types import ModuleType

import numpy as np
import torch

from executor.cache.selected import Selected
from executor.kernels.pool import KVPool
from executor.work import Work


class Selection:
    """Landmarks of a table's pages, and decode attention over the pages chosen by them.

    `ops` is `executor.kernels`, or `executor.kernels.torch_ops`, which are called alike.
    """

    def __init__(self, table: Selected, marks: Sequence[torch.Tensor], ops: ModuleType) -> None:
        self._table, self._marks, self._ops = table, marks, ops
        self._device = marks[0].device

    def begin(self, work: Work) -> None:
        """Look up the pages that the step writes to, and those that its decodes may read."""
        page = self._table.unit_slots
        written: list[int] = []
        filled: list[int] = []
        for request, start, stop in work.spans:
            for i in range(start // page, -(-stop // page)):
                written.append(int(self._table.owned[request][i]))
                filled.append(min(page, stop - i * page))
        self._written, self._filled = self._sent(written), self._sent(filled)
        requests, lengths = work.decoding
        owned = self._table.owned
        pages = np.empty((len(requests), owned.width), dtype=np.int32)
        owned.fill(owned.rows(requests), pages)
        self._pages = torch.from_numpy(pages).to(self._device)
        self._lengths = self._sent(lengths.tolist())

    def wrote(self, layer: int, pool: KVPool) -> None:
        """The step's keys are in the pool: bring landmarks up to date."""
        self._ops.build_landmarks(pool, self._written, self._filled, self._marks[layer])

    def decode(self, layer: int, pool: KVPool, q: torch.Tensor) -> torch.Tensor:
        """Attention of the decoding requests' q [batch, heads, head_dim]; returns its shape."""
        page, count = self._table.unit_slots, self._table.count
        scores = self._ops.page_scores(q, self._marks[layer], self._pages, self._lengths, page)
        table, lengths = self._ops.select_pages(scores, self._pages, self._lengths, page, count)
        most = count * page
        out: torch.Tensor = self._ops.decode(q, pool, lengths, max_length=most, table=table)[0]
        return out

    def _sent(self, values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=self._device)
