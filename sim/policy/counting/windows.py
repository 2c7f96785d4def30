"""Tokens that layers of several kinds keep of all sequences, counted in bulk."""

from collections.abc import Sequence

from sim.model.layers import LayerGroup
from sim.policy.counting.capped import SaturatingSum
from sim.policy.manager import Stored, group_bytes


class Windows:
    """Sums of min(length, window) for each window of a model's layers.

    Chunked-local layers are taken for windows of a chunk's length, which they reach at its end.
    """

    def __init__(self, groups: Sequence[LayerGroup], stored: Sequence[Stored]) -> None:
        sizes = sorted({group.window for group in groups if group.window is not None})
        self.sums = [SaturatingSum(size) for size in sizes]  # of decoding sequences
        self.prefilling = [0] * len(sizes)  # of the others
        self.groups = [  # bytes of a token, payload and side data, and the place of its window
            (
                *group_bytes(1, group, one),
                -1 if group.window is None else sizes.index(group.window),
            )
            for group, one in zip(groups, stored, strict=True)
        ]

    def keep(self, length: int, sign: int) -> None:
        """A sequence of that length begins (1) or ceases (-1) to be kept beside the batch."""
        for place, one in enumerate(self.sums):
            self.prefilling[place] += sign * min(length, one.cap)

    def join(self, length: int, tick: int) -> None:
        """A sequence that was kept beside it joins the decoding batch."""
        self.keep(length, -1)
        for one in self.sums:
            one.add(length, tick)

    def rest(self, length: int, tick: int) -> None:
        """A sequence of the batch, which now has that length, decodes no more."""
        for one in self.sums:
            one.remove(length, tick)
        self.keep(length, 1)

    def linear_for(self, limit: int, tick: int) -> int:
        """Ticks, at most so many, before which no sequence of the batch fills a window."""
        for one in self.sums:
            limit = min(limit, one.linear_for(tick))
        return limit

    def advance(self, steps: int, tick: int) -> None:
        """`steps` ticks pass, and it is `tick` now."""
        for one in self.sums:
            one.advance(steps, tick)

    def by_group(self, whole: int) -> tuple[tuple[int, int], ...]:
        """Bytes of payload and of side data that each group keeps, full ones of `whole` tokens."""
        kept = [one.total + beside for one, beside in zip(self.sums, self.prefilling, strict=True)]
        kept.append(whole)
        return tuple((payload * kept[at], side * kept[at]) for payload, side, at in self.groups)

    def live_bytes(self, whole: int) -> tuple[int, int]:
        """The sums of `by_group`."""
        payload = side = 0
        for one, beside, at in self.groups:
            kept = whole if at < 0 else self.sums[at].total + self.prefilling[at]
            payload += one * kept
            side += beside * kept
        return payload, side

    def reads(self, context: int, decoding: int) -> tuple[int, int]:
        """Bytes that the batch's attention reads in this step, and the growth a step.

        Full layers read `context` tokens, of `decoding` sequences.
        """
        first = growth = 0
        for payload, side, at in self.groups:
            token = payload + side
            first += token * (context if at < 0 else self.sums[at].total)
            growth += token * (decoding if at < 0 else self.sums[at].growing)
        return first, growth
