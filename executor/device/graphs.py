"""Steps that only decode, replayed: one launch instead of hundreds."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch

from executor.attention.sender import Sender
from executor.cache.table import Table
from executor.device.llama import Attention, Llama
from executor.device.text import Text
from executor.work import Work

Replay = Callable[[], object]
Capture = Callable[[Callable[[], torch.Tensor]], tuple[Replay, torch.Tensor]]
"""Records what a call launches; the replay, and the tensor that it fills as the call filled its."""


@runtime_checkable
class Replayable(Attention, Protocol):
    """Attention that can be told of a decode step so that its launches never change."""

    table: Table

    @property
    def replayable(self) -> bool:
        """Whether it can."""
        ...

    def reserve(self, batch: int, longest: int) -> None:
        """Take all memory that steps of up to so many decodes need."""
        ...

    def begin_padded(self, work: Work, batch: int, longest: int) -> None:
        """Look up the step's addresses, for a batch of exactly so many sequences."""
        ...


class _Graph(NamedTuple):
    replay: Replay
    logits: torch.Tensor  # [batch, vocab]


class DecodeGraphs:
    """One graph a padded batch, captured when it is first needed."""

    def __init__(
        self,
        llama: Llama,
        attention: Replayable,
        text: Text,
        capture: Capture,
        most: int,
        longest: int,
    ) -> None:
        """most sequences, and their longest context."""
        self._llama, self._attention = llama, attention
        self._text, self._capture = text, capture
        self._sizes, self._longest = tuple(padded_sizes(most)), longest
        self._sender = Sender(text.chosen.device)
        self._graphs: dict[int, _Graph] = {}
        attention.reserve(self._sizes[-1], longest)
        self._sender.room("places", (2 * self._sizes[-1],), np.int64)

    def begin(self, work: Work) -> _Graph:
        """Put the step's inputs in place. What it returns fills `logits` and the newest tokens."""
        n = len(work.decodes)
        batch = next(size for size in self._sizes if size >= n)
        self._attention.begin_padded(work, batch, self._longest)
        requests, lengths = work.decoding
        places = self._sender.room("places", (2, batch), np.int64)
        places.host[:, :n] = requests, lengths - 1
        places.host[0, n:] = self._text.nobody
        places.host[1, n:] = 0
        whose, positions = places.send()
        if batch not in self._graphs:
            rows = torch.arange(batch, device=whose.device)

            def step() -> torch.Tensor:
                ids = self._text.at(whose, positions)
                logits = self._llama.forward(ids, positions, rows, self._attention)
                self._text.choose(whose, positions, logits.argmax(-1))
                return logits

            before = self._text.chosen.clone()
            step()  # what is compiled at first use can't be captured
            self._text.chosen.copy_(before)
            self._graphs[batch] = _Graph(*self._capture(step))
            self._text.chosen.copy_(before)
        return self._graphs[batch]


def padded_sizes(most: int) -> Iterator[int]:
    """1, 2, 4, 8 and multiples of 8, up to the first that holds `most` (as vLLM's captures)."""
    for size in (1, 2, 4, *range(8, most + 8, 8)):
        yield size
        if size >= most:
            return
