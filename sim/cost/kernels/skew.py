"""Attention over unequal contexts: how far the longest sequence holds up a batch.

Attention runs one block of threads a sequence and KV head. Alone, few sequences have their keys
split over the multiprocessors and all end together; many are not split, and the longest ends last.
Beside a chunk nothing is split: the decode with the longest context ends last however few there
are. Both are measured by a profile's skew rows; nothing here is fitted to whole runs.

The rows may hold the sum of several repetitions where the attention table has their mean. Batches
of equal contexts are in both, and tell how many.
"""

from bisect import bisect_right
from statistics import median

from sim.cost.kernels.grid import Grid
from sim.cost.kernels.profile import Profile

LONGEST_MEAN = 2600
"""Mean contexts beyond this many tokens are left out: there the profile's noise is largest."""

SPLIT_WAVES = 0.8
"""FlashAttention's heuristic splits the keys of a batch until it fills this share of the device."""

FEW = 8
"""One sequence in so many is long, at most: then the wait is for one, not for a second wave."""
SEQUENCES = (8, 64)
LONGEST_CHUNK = 1024
LONGEST_EARLIER = 1024
"""Behind more tokens than these it is the chunk that ends last, and a long decode hides in it."""

MULTIPROCESSORS = {
    "a100-40gb": 108,
    "a100-80gb": 108,
    "b200": 148,
    "h100": 132,
    "h200": 132,
    "l4": 58,
    "l40s": 142,
    "rtx-3090": 82,
    "rtx-4090": 128,
    "rtx-pro-6000": 188,
}
"""Of a device, as NVIDIA's whitepapers of its architecture say."""


class LengthSkew:
    """What a batch of decodes waits for its longest, a layer.

    Alone: alpha(n) · (t(longest) − t(mean)), the measured median for each batch size; n · alpha is
    interpolated. Beside a chunk: `key_us` for every key that the longest has above the mean.
    """

    def __init__(self, profile: Profile, kv_heads: int, kernel_time: float = 1.0) -> None:
        measured: dict[int, list[float]] = {}
        columns = (
            profile.rows.get(kernel, []) for kernel in ("skew_mean", "skew_max", "skew_time")
        )
        for equal, longest, unequal in zip(*columns, strict=True):
            if equal[3] < LONGEST_MEAN and longest[4] > equal[4]:
                share = (unequal[4] - equal[4]) / (longest[4] - equal[4])
                measured.setdefault(equal[2], []).append(share)
        processors = int(profile.meta["multiprocessors"])
        self.unsplit_from = SPLIT_WAVES * 2 * processors / kv_heads
        points = {n: n * median(shares) for n, shares in measured.items()}
        self._n = sorted(n for n in points if n >= self.unsplit_from)
        self._weighted = [points[n] for n in self._n]
        waits = [wait for *_, wait in waits_beside_chunks(profile)]
        self.key_us = kernel_time * median(waits) / repetitions(profile) if waits else 0.0

    def alpha(self, n: int, padded: int) -> float:
        """Share of the way from the mean to the longest, for n sequences in a graph of `padded`."""
        if padded < self.unsplit_from or not self._n:
            return 0.0
        i = bisect_right(self._n, n)
        if i in (0, len(self._n)):
            return self._weighted[min(i, len(self._n) - 1)] / n
        (a, b), (low, high) = self._n[i - 1 : i + 1], self._weighted[i - 1 : i + 1]
        return (low + (high - low) * (n - a) / (b - a)) / n


def repetitions(profile: Profile) -> int:
    """How many times the skew rows hold what the attention table has once: 3 in LLMServingSim's."""
    rows, table = profile.rows.get("skew_mean"), profile.rows.get("attention")
    if not rows or not table:
        return 1
    grid = Grid((row[:4], row[4]) for row in table)
    return max(round(median(time / grid.decode(n, mean) for _, _, n, mean, time in rows)), 1)


def waits_beside_chunks(profile: Profile) -> list[tuple[int, int, float]]:
    """(decodes, chunk, µs a key above the mean) of the rows where few sequences are long, as the
    rows have it: `repetitions` times what a step waits."""
    waits = []
    rows = (profile.rows.get(kernel, []) for kernel in ("mixed_mean", "mixed_time"))
    for equal, unequal in zip(*rows, strict=True):
        chunk, earlier, n, mean, _ = equal
        few, longest = unequal[2], unequal[3]
        usual = SEQUENCES[0] <= n <= SEQUENCES[1] and few * FEW <= n
        if usual and chunk <= LONGEST_CHUNK and earlier <= LONGEST_EARLIER and longest > mean:
            waits.append((n, chunk, (unequal[4] - equal[4]) / (longest - mean)))
    return waits


def has_skew(profile: Profile) -> bool:
    """Whether the profile holds what `LengthSkew` needs."""
    measured = "skew_time" in profile.rows or "mixed_time" in profile.rows
    return measured and "multiprocessors" in profile.meta
