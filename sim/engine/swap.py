"""KV that a preempted request leaves on the host, and the traffic it makes."""

from typing import NamedTuple

from sim.sequence import Sequence


class Moved(NamedTuple):
    """A sequence's KV on its way to the host or back."""

    request: int
    tokens: int  # whose KV leaves; on the way back, those that are there already


class HostSwap:
    """KV on the host, and what the next step must move first. Bytes per GPU."""

    def __init__(self, capacity_bytes: int) -> None:
        self.free_bytes = capacity_bytes
        self.moving = False  # whether there has been any since `traffic` was asked
        self._out_bytes = 0
        self._in_bytes = 0
        self._out: list[Moved] = []
        self._in: list[Moved] = []
        self.under_way: tuple[list[Moved], list[Moved]] = [], []
        """Out and back, as the last plan with traffic told."""

    def store(self, seq: Sequence, size_bytes: int) -> None:
        """Keep the KV of the preempted sequence's `lost` tokens, if there is room."""
        if 0 < size_bytes <= self.free_bytes:
            self.free_bytes -= size_bytes
            self._out_bytes += size_bytes
            self._out.append(Moved(seq.index, seq.lost))
            self.moving = True
            seq.swapped = seq.lost
            seq.swapped_bytes += size_bytes
            seq.host_bytes = size_bytes

    def load(self, seq: Sequence, found: int, size_bytes: int) -> None:
        """Bring back so much of it, all but `found` tokens; its host memory is free again."""
        self.free_bytes += seq.host_bytes
        self._in_bytes += size_bytes
        self._in.append(Moved(seq.index, found))
        self.moving = True
        seq.swapped_bytes += size_bytes
        seq.swapped = seq.host_bytes = 0

    def traffic(self) -> tuple[int, int]:
        """Bytes out and in since the last call."""
        moved = self._out_bytes, self._in_bytes
        self.under_way = self._out, self._in
        self._out_bytes = self._in_bytes = 0
        self._out, self._in = [], []
        self.moving = False
        return moved
