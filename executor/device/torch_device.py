"""A step on real tensors: the cache follows the plan, the model runs, a clock says how long."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import torch

from executor.cache.host import HostPool
from executor.cache.table import Table
from executor.device.graphs import Capture, DecodeGraphs, Replayable
from executor.device.llama import Attention, Llama
from executor.device.text import Text
from executor.work import Work
from sim.plan import StepPlan

AS_PER_NS = 10**9
Clock = Callable[[], int]
"""Nanoseconds from some instant."""


class Step(NamedTuple):
    """What a step gave, and attoseconds: all that it took, and the host's part of them.

    The host's part ends when the model's pass begins; on a GPU, whose work the host does not wait
    for, when everything is launched. The rest is the device's alone.
    """

    logits: torch.Tensor  # [samples, vocab]: of chunks that end, then of decodes
    took_as: int
    host_as: int


class StepAttention(Attention, Protocol):
    """Attention that is told of each step before its layers."""

    def begin(self, work: Work) -> None:
        """Look up where the step's tokens go and where its requests' keys are."""
        ...


class TorchDevice:
    """A model, its cache, and the attention between them, on one device."""

    def __init__(
        self,
        llama: Llama,
        table: Table,
        attention: StepAttention,
        text: Text,
        clock: Clock,
        waits: Callable[[], object] | None = None,
        host: HostPool | None = None,
    ) -> None:
        """waits: blocks until the device has done all that it was told; None where calls do.

        host: where KV of preempted requests goes if the scheduler swaps.
        """
        self.table = table
        self._llama = llama
        self._clock = clock
        self._device = llama.embedding.device
        self._attention = attention
        self._text = text
        self._waits = waits
        self._host = host
        self._graphs: DecodeGraphs | None = None
        self.last: Step | None = None

    @torch.inference_mode()
    def capture_decodes(self, capture: Capture, most: int, longest: int) -> None:
        """From now on replay steps that only decode, of up to `most` contexts of `longest`, where
        attention launches the same for each of them."""
        attention = self._attention
        if isinstance(attention, Replayable) and attention.replayable:
            given = self._llama, attention, self._text, capture, most, longest
            self._graphs = DecodeGraphs(*given)

    def restart(self, table: Table) -> None:
        """Forget all requests: what was captured serves another run, over an equal table."""
        assert isinstance(self._attention, Replayable)
        self.table = self._attention.table = table
        if self._host:
            self._host.clear()
        self._text.chosen.zero_()

    @property
    def replays(self) -> bool:
        """Whether steps that only decode are replayed."""
        return self._graphs is not None

    def run(self, plan: StepPlan, work: Work) -> int:
        took = self.step(work).took_as
        if self._host:
            planned = plan.swap_out_bytes, plan.swap_in_bytes
            assert self._host.moved_bytes == planned, (self._host.moved_bytes, planned)
        return took

    @torch.inference_mode()
    def step(self, work: Work) -> Step:
        """All a step needs: following the plan, addresses, the model, sampling. Timed, and kept as
        `last`."""
        start = self._now()
        if self._host:
            self._host.follow(self.table, work)
        else:
            self.table.follow(work)
        if self._graphs and not work.chunks:
            graph = self._graphs.begin(work)
            begun = self._clock()
            graph.replay()
            logits = graph.logits[: len(work.decodes)]
        else:
            self._attention.begin(work)
            ids, positions, sampled, samplers = self._inputs(work)
            begun = self._clock()
            logits = self._llama.forward(ids, positions, sampled, self._attention)
            self._text.choose(samplers, positions[sampled], logits.argmax(-1))
        host = (self._clock() if self._waits else begun) - start
        self.last = Step(logits, (self._now() - start) * AS_PER_NS, host * AS_PER_NS)
        return self.last

    @torch.inference_mode()
    def prepared(self, work: Work) -> Callable[[], object]:
        """The step's pass through the model with its inputs in place: on a GPU, as a CUDA graph.

        What is left out is the host's part: the plan, addresses, launches.
        """
        self.table.follow(work)
        self._attention.begin(work)
        ids, positions, sampled, _ = self._inputs(work)

        @torch.inference_mode()
        def forward() -> torch.Tensor:
            return self._llama.forward(ids, positions, sampled, self._attention)

        forward()  # whatever is compiled at first use can't be captured
        if self._device.type != "cuda":
            return forward
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            forward()
        replay: Callable[[], object] = graph.replay
        return replay

    def _now(self) -> int:
        if self._waits:
            self._waits()
        return self._clock()

    def _inputs(self, work: Work) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """ids and positions [tokens]; rows sampled, and whose they are [samples]. All int64."""
        tokens = work.tokens
        ids, positions = np.zeros((2, tokens), dtype=np.int64)
        sampled: list[int] = []
        samplers: list[int] = []
        again: list[int] = []  # rows of tokens that were chosen, and are computed again
        whose_again: list[int] = []
        row = 0
        for request, start, length, last in work.chunks:
            span = np.arange(start, start + length)
            positions[row : row + length] = span
            own = max(0, self._text.prompt_end(request, start + length) - start)
            ids[row : row + own] = self._text.prompt(request, span[:own])
            again += range(row + own, row + length)
            whose_again += [request] * (length - own)
            row += length
            if last:
                sampled.append(row - 1)
                samplers.append(request)
        decoding = [request for request, _ in work.decodes]
        positions[row:] = [length - 1 for _, length in work.decodes]
        device = self._device
        given, places = torch.from_numpy(ids).to(device), torch.from_numpy(positions).to(device)
        chosen = torch.tensor([*again, *range(row, tokens)], dtype=torch.int64, device=device)
        whose = torch.tensor([*whose_again, *decoding], dtype=torch.int64, device=device)
        given[chosen] = self._text.at(whose, places[chosen])
        rows = torch.tensor([*sampled, *range(row, tokens)], dtype=torch.int64, device=device)
        samples = torch.tensor([*samplers, *decoding], dtype=torch.int64, device=device)
        return given, places, rows, samples
