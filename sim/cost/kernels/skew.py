"""Decode attention over unequal contexts: how far the longest sequence holds up the batch."""

from bisect import bisect_right
from statistics import median

from sim.cost.kernels.profile import Profile

LONGEST_MEAN = 2600
"""Mean contexts beyond this many tokens are left out: there the profile's noise is largest."""

SPLIT_WAVES = 0.8
"""FlashAttention's heuristic splits the keys of a batch until it fills this share of the device."""


class LengthSkew:
    """alpha(n): time = t(mean) + alpha · (t(longest) − t(mean)) for n decoding sequences.

    The measured median for each batch size; n · alpha is interpolated. Batches small enough for
    the kernel to split keys over multiprocessors have none, for then all of them end together.
    """

    def __init__(self, profile: Profile, kv_heads: int) -> None:
        measured: dict[int, list[float]] = {}
        columns = (profile.rows[kernel] for kernel in ("skew_mean", "skew_max", "skew_time"))
        for equal, longest, unequal in zip(*columns, strict=True):
            if equal[3] < LONGEST_MEAN and longest[4] > equal[4]:
                share = (unequal[4] - equal[4]) / (longest[4] - equal[4])
                measured.setdefault(equal[2], []).append(share)
        processors = int(profile.meta["multiprocessors"])
        self.unsplit_from = SPLIT_WAVES * 2 * processors / kv_heads
        points = {n: n * median(shares) for n, shares in measured.items()}
        self._n = sorted(n for n in points if n >= self.unsplit_from)
        self._weighted = [points[n] for n in self._n]

    def alpha(self, n: int) -> float:
        """Share of the way from the mean to the longest."""
        if n < self.unsplit_from or not self._n:
            return 0.0
        i = bisect_right(self._n, n)
        if i in (0, len(self._n)):
            return self._weighted[min(i, len(self._n) - 1)] / n
        (a, b), (low, high) = self._n[i - 1 : i + 1], self._weighted[i - 1 : i + 1]
        return (low + (high - low) * (n - a) / (b - a)) / n


def has_skew(profile: Profile) -> bool:
    """Whether the profile holds what `LengthSkew` needs."""
    return "skew_time" in profile.rows and "multiprocessors" in profile.meta
