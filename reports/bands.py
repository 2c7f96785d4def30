"""A series of many samples as spans of time: the least, the mean and the most in each.

A line through thousands of samples is a comb at a page's width, whose teeth depend on the sampling.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Spans(NamedTuple):
    """Equal spans of the samples' time: `starts` are rows, `time` the mean time of each."""

    starts: NDArray[np.int64]
    time: Floats

    def mean(self, values: NDArray[Any]) -> Floats:
        """Mean of the samples in each span."""
        counts = np.diff(np.append(self.starts, len(values)))
        return np.add.reduceat(values.astype(np.float64), self.starts) / counts

    def least(self, values: NDArray[Any]) -> Floats:
        return np.minimum.reduceat(values, self.starts).astype(np.float64)

    def most(self, values: NDArray[Any]) -> Floats:
        return np.maximum.reduceat(values, self.starts).astype(np.float64)


def spans(time: Floats, most: int) -> Spans:
    """At most so many spans of equal length; each sample its own where there are no more.

    `time` ascends. Spans without a sample are left out.
    """
    if len(time) <= most:
        return Spans(np.arange(len(time)), np.asarray(time, np.float64))
    edges = np.linspace(time[0], time[-1], most + 1)[:-1]
    starts = np.unique(np.searchsorted(time, edges, side="left"))
    found = Spans(starts, np.empty(0))
    return found._replace(time=found.mean(time))
