"""Service levels: what latency percentiles may be, and the goodput that is left within them.

Goodput is DistServe's (Zhong et al., OSDI'24) and that of `vllm bench serve --goodput`: requests a
second that meet every bound. A level itself holds where its percentiles do, over all requests
asked: one that is refused, or not answered when the run ends, is infinitely late.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.request_times import request_latencies
from sim.engine.record import FINISHED, TRUNCATED, Column, Log
from sim.run.metrics import Floats, Metric
from sim.units import NANOSECONDS, parse_quantity
from workloads.errors import InputError

NAMES = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2el", "e2el": "e2el", "queue": "queue"}
"""As users write them, and as metrics are called."""
LABELS = {"ttft": "TTFT", "tpot": "TPOT", "e2el": "E2E", "queue": "Queue"}

_TERM = re.compile(r"\s*([a-z0-9]+)_p(\d+(?:\.\d+)?)\s*=\s*(\S+)\s*")


@dataclass(frozen=True, slots=True)
class Bound:
    """One percentile of one latency and the most it may be, in s."""

    latency: str  # as in `request_latencies`
    percentile: float  # 0 < p <= 100
    limit_s: float

    @property
    def name(self) -> str:
        """As its metric is called: `ttft_ms_p99`."""
        return f"{self.latency}_ms_p{self.percentile:g}"

    @property
    def text(self) -> str:
        """As people read it: `TTFT p99`."""
        return f"{LABELS[self.latency]} p{self.percentile:g}"

    def value(self, seconds: Floats) -> float:
        """The percentile of these, linear between ranks; infinite where a rank is."""
        if not len(seconds):
            return 0.0
        ranked = np.sort(seconds)
        above = math.ceil(self.percentile / 100 * (len(ranked) - 1))
        if not (highest := ranked[above]) < np.inf:
            return math.inf
        return float(np.percentile(np.minimum(ranked, highest), self.percentile))

    def lost(self, count: int) -> int:
        """So many of `count` requests beyond the limit, and the percentile is, whatever others are.

        The percentile lies between two ranks; both are beyond it then.
        """
        return count - math.floor(self.percentile / 100 * (count - 1))


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """Bounds that hold together."""

    text: str
    bounds: tuple[Bound, ...]


def parse_level(text: str) -> ServiceLevel:
    """`ttft_p99=2s,tpot_p50=50ms,e2e_p90=30s`. Raises InputError in one line."""
    bounds: list[Bound] = []
    for term in text.split(","):
        found = _TERM.fullmatch(term)
        if found is None or found[1] not in NAMES or not 0 < float(found[2]) <= 100:
            raise InputError(
                f"--slo {text}: {term.strip()!r}, expected a percentile of ttft, tpot, e2e or "
                "queue and its limit, such as ttft_p99=2s"
            )
        limit_ns = parse_quantity(found[3], NANOSECONDS, f"--slo {found[1]}_p{found[2]}")
        bound = Bound(NAMES[found[1]], float(found[2]), limit_ns / 1e9)
        if limit_ns == 0:
            raise InputError(f"--slo {text}: {term.strip()!r}, expected a limit above 0")
        if any(bound.name == other.name for other in bounds):
            raise InputError(f"--slo {text}: {bound.text} is given twice")
        bounds.append(bound)
    return ServiceLevel(text, tuple(bounds))


def limits_ms(text: str | None) -> dict[str, float]:
    """Limits by the metrics that have to be within them; none without a level."""
    level = None if text is None else parse_level(text)
    return {f"slo_{one.name}": 1e3 * one.limit_s for one in level.bounds} if level else {}


def latencies(requests: Mapping[str, Column], end_s: float) -> dict[str, Floats]:
    """Seconds by latency, one a request asked by the end of the run; infinite where it got none.

    NaN where it has none by definition: the TPOT of an answer of one token. Shape: (asked,).
    """
    asked = requests["arrival_s"] <= max(end_s, 0.0)  # NaN: never asked, in a closed loop
    table = {name: column[asked] for name, column in requests.items()}
    answered = np.isin(table["status"], (FINISHED, TRUNCATED))
    single = (table["output_tokens"] == 1) | (answered & (table["generated_tokens"] < 2))
    found = request_latencies(table)
    for name, values in found.items():
        values[np.isnan(values)] = np.inf
        if name == "tpot":
            values[single] = np.nan
    return found


def attained(level: ServiceLevel, values: dict[str, Floats]) -> NDArray[np.bool_]:
    """Which requests (asked,) were answered within every bound."""
    within = np.ones(len(values["e2el"]), dtype=bool)
    for bound in level.bounds:
        seconds = values[bound.latency]
        within &= (seconds <= bound.limit_s) | np.isnan(seconds)
    within &= np.isfinite(values["e2el"])
    return within


def level_metrics(
    level: ServiceLevel, log: Log, makespan_s: float | None, gpus: int
) -> list[Metric]:
    """Whether the level holds, how far each bound is from breaking, and goodput."""
    values = latencies(log.requests, log.end_s)
    within = attained(level, values)
    good = int(within.sum())
    goodput = good / makespan_s if makespan_s else None
    rows, shares = [], []
    for bound in level.bounds:
        known = values[bound.latency]
        value = bound.value(known[~np.isnan(known)])
        shares.append(value / bound.limit_s)
        rows.append(
            Metric(
                f"slo_{bound.name}",
                f"{bound.text} of all",
                "ms",
                f"of all requests asked, without an answer infinite; at most "
                f"{1e3 * bound.limit_s:,.10g} ms",
                1e3 * value if math.isfinite(value) else None,
            )
        )
    most = max(shares)
    return [
        Metric(
            "slo_met",
            "Service level holds",
            "",
            f"1 where every percentile is within its limit: {level.text}",
            int(most <= 1),
        ),
        Metric(
            "slo_used_share",
            "Service level used",
            "%",
            "largest percentile ÷ limit; above 100 the level is broken",
            100 * most if math.isfinite(most) else None,
        ),
        *rows,
        Metric(
            "slo_attainment",
            "Within the level",
            "%",
            "requests answered within every limit ÷ requests asked",
            100 * good / len(within) if len(within) else None,
        ),
        Metric(
            "goodput",
            "Goodput",
            "req/s",
            "requests answered within every limit ÷ makespan",
            goodput,
        ),
        Metric(
            "goodput_per_gpu",
            "Goodput a GPU",
            "req/s",
            f"goodput ÷ GPUs ({gpus})",
            None if goodput is None else goodput / gpus,
        ),
    ]
