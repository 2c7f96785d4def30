"""Host arrays on their way to a device."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from executor.kernels.configs import pow2_above

KINDS = {np.dtype(np.int32): torch.int32, np.dtype(np.int64): torch.int64}


class Room(NamedTuple):
    """One name's memory: a view of it on the host, and the tensor that it is sent to."""

    host: NDArray[Any]
    sent: torch.Tensor
    pinned: torch.Tensor | None  # the host's memory where it is not the device's

    def send(self) -> torch.Tensor:
        """Copy host to device without waiting; what it returns stays in place."""
        if self.pinned is not None:
            self.sent.copy_(self.pinned, non_blocking=True)
        return self.sent


class Sender:
    """Each name has memory of its own, which moves only when more is asked of it.

    So a CUDA graph can read it again and again. A step must be over before the next one writes.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rooms: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}  # flat: host, device

    def room(self, name: str, shape: Sequence[int], kind: type[np.integer[Any]]) -> Room:
        """Memory for an array of that shape. On a GPU the host's is pinned."""
        size = prod(shape)
        if name not in self._rooms or len(self._rooms[name][0]) < size:
            there = self._device.type == "cuda"
            dtype = KINDS[np.dtype(kind)]
            host = torch.zeros(pow2_above(max(size, 64)), dtype=dtype, pin_memory=there)
            self._rooms[name] = host, host.to(self._device) if there else host
        host, device = self._rooms[name]
        pinned = None if host is device else host[:size].view(*shape)
        return Room(host.numpy()[:size].reshape(shape), device[:size].view(*shape), pinned)

    def send(self, name: str, values: NDArray[Any], kind: type[np.integer[Any]]) -> torch.Tensor:
        """A copy of the values on the device."""
        room = self.room(name, values.shape, kind)
        room.host[...] = values
        return room.send()
