"""Attention written out plainly in fp64: what every other way of computing it must agree with."""

from collections.abc import Sequence

import torch

from executor.work import Work

NO_WINDOW = 2**62


class PlainAttention:
    """Keeps all keys of every request in a list; a window is a mask, never a ring."""

    def __init__(
        self, window: int = NO_WINDOW, sinks: int = 0, windows: Sequence[int] = ()
    ) -> None:
        """windows: of each layer, where they differ."""
        self._window, self._sinks, self._windows = window, sinks, windows
        self._kv: dict[tuple[int, int], torch.Tensor] = {}  # [2, context, kv_heads, head_dim]
        self._spans: list[tuple[int, int, int]] = []

    def begin(self, work: Work) -> None:
        """Remember whose rows follow."""
        self._spans = [(request, start, stop - start) for request, start, stop in work.spans]

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """softmax(q·k ÷ √d)·v. q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim]."""
        out = torch.empty_like(q)
        window = self._windows[layer] if self._windows else self._window
        row = 0
        for request, start, tokens in self._spans:
            rows = slice(row, row + tokens)
            row = rows.stop
            kv = torch.stack([k[rows], v[rows]]).double()
            if start:
                kv = torch.cat([self._kv[layer, request][:, :start], kv], 1)
            self._kv[layer, request] = kv
            keys, values = kv.repeat_interleave(q.shape[1] // k.shape[1], 2)
            scores = torch.einsum("thd,khd->htk", q[rows].double(), keys) * q.shape[2] ** -0.5
            at = torch.arange(start, start + tokens, device=q.device)[:, None]
            key = torch.arange(start + tokens, device=q.device)
            seen = (key <= at) & ((key > at - window) | (key < self._sinks))
            weights = scores.masked_fill(~seen, float("-inf")).softmax(-1)
            out[rows] = torch.einsum("htk,khd->thd", weights, values).to(q.dtype)
        return out
