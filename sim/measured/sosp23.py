"""The PagedAttention paper's comparison, run again: Kwon et al., SOSP'23, figures 2 and 13.

OPT-13B on an A100 with 40 GB, 12 GiB of KV: 15,728 slots. Three Orca variants with one buffer a
request from a buddy allocator, and paging with blocks of 16. Requests arrive by Poisson; lengths
are lognormal with the data sets' published means.

Two numbers are inferred from the published ones, the rest is predicted:

* The spread of lengths, a coefficient of variation of 1. Paging's memory, 96.3 % full with 30.42
  requests, holds 498 tokens a request, which is the mean prompt and the whole mean output: so the
  outputs seen by a batch, whose mean is (1 + CV²) times the mean of all, are twice as long.
* The time of a step, by Little's law from paging's batch: batch ÷ (rate × mean output). It decides
  paging's batch, which is therefore no prediction; the Orca variants are short of memory at any
  such speed, and their batches and shares don't depend on it.

At that speed paging is just short of saturation, so that a tenth of the pool may be free. Paging's
live share is therefore taken of the blocks in use; free blocks serve anyone and are no waste.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sim.cost.roofline import FixedStep
from sim.run.simulation import execute, prepare, with_policy
from workloads.synthetic import generate
from workloads.transform import cap

SLOTS = 15_728
TOKEN_BYTES = 819_200  # OPT-13B: 2 × 40 layers × 5,120 × 2 bytes
LONGEST = 2048
LENGTHS_CV = 1.0
WARM_UP = 0.1  # of the run, left out of all means


@dataclass(frozen=True, slots=True)
class DataSet:
    """What was served: means in tokens, arrivals a second, and paging's published batch."""

    name: str
    prompt: float
    output: float
    request_rate: float
    paging_batch: float

    @property
    def step_s(self) -> float:
        """Little's law: seconds a request stays, over the tokens it generates meanwhile."""
        return self.paging_batch / (self.request_rate * self.output)


SHAREGPT = DataSet("ShareGPT", 161.31, 337.99, 2.0, 30.42)
ALPACA = DataSet("Alpaca", 19.31, 58.45, 30.0, 132.44)


class System(NamedTuple):
    """A system of the paper: our policy, and its published numbers."""

    name: str
    policy: str
    shares: dict[str, float]  # % of KV memory, ShareGPT
    batch: dict[str, float]  # mean batched requests by data set


SYSTEMS = (
    System(
        "Orca (Max)",
        "preallocation:reserve=max,allocator=buddy",
        {"live": 20.4, "reserved": 13.3, "internal": 57.3, "external": 8.9},
        {"ShareGPT": 7.00, "Alpaca": 7.00},
    ),
    System(
        "Orca (Pow2)",
        "preallocation:reserve=pow2,allocator=buddy",
        {"live": 26.8, "reserved": 17.9, "internal": 13.6, "external": 41.6},
        {"ShareGPT": 9.81, "Alpaca": 43.24},
    ),
    System(
        "Orca (Oracle)",
        "preallocation:reserve=oracle,allocator=buddy",
        {"live": 38.2, "reserved": 25.2, "internal": 0.0, "external": 36.6},
        {"ShareGPT": 13.62, "Alpaca": 72.75},
    ),
    System(
        "vLLM (paging, 16)",
        "paging:block_size=16",
        {"live": 96.3},
        {"ShareGPT": 30.42, "Alpaca": 132.44},
    ),
)


class Comparison(NamedTuple):
    """One number of the paper beside ours."""

    data: str
    system: str
    quantity: str
    unit: str  # "%" of KV memory, or "requests"
    published: float
    simulated: float

    @property
    def difference(self) -> float:
        """In points for shares, in % of the published value for batches."""
        gap = self.simulated - self.published
        return gap if self.unit == "%" else 100 * gap / self.published


def reproduce(requests: int = 7200, seed: int = 0) -> list[Comparison]:
    """Serve `requests` of each data set through the four systems. 7,200 are the paper's hour."""
    return [
        row
        for data in (SHAREGPT, ALPACA)
        for system, means in _serve(data, requests, seed)
        for row in _compare(data, system, means)
    ]


def _serve(data: DataSet, requests: int, seed: int) -> Iterator[tuple[System, dict[str, float]]]:
    """Means over the run, from the end of the warm-up to the last arrival."""
    trace = generate(
        requests,
        data.request_rate,
        prompt=f"lognormal:mean={data.prompt},cv={LENGTHS_CV}",
        output=f"lognormal:mean={data.output},cv={LENGTHS_CV}",
        seed=seed,
    )
    trace = cap(trace, max_total=LONGEST)
    end_s = float(trace.arrival_s[-1])
    setup = prepare(
        trace,
        model="opt-13b",
        gpu="a100-40gb",
        policy=SYSTEMS[0].policy,
        max_num_batched_tokens=2560,
        max_model_len=LONGEST,
        kv_cache_memory=SLOTS * TOKEN_BYTES,
        horizon=end_s,
    )
    cost = FixedStep(data.step_s, "Little's law on the published batch of paging")
    for system in SYSTEMS:
        log = execute(with_policy(setup, system.policy), cost).log
        at = log.timeline["time_s"] >= WARM_UP * end_s
        means = {name: float(column[at].mean()) for name, column in log.timeline.items()}
        yield system, means


def _compare(data: DataSet, system: System, means: dict[str, float]) -> Iterator[Comparison]:
    total = SLOTS * TOKEN_BYTES
    if data is SHAREGPT:
        ours = {
            "live": means["live_bytes"] / total,
            "reserved": means["reserved_bytes"] / total,
            "internal": means["internal_bytes"] / total,
            "external": (means["external_bytes"] + means["free_bytes"]) / total,
        }
        if system.policy.startswith("paging"):  # whose free blocks serve anyone: no waste
            ours["live"] = means["live_bytes"] / (means["live_bytes"] + means["internal_bytes"])
        for use, published in system.shares.items():
            yield Comparison(data.name, system.name, use, "%", published, 100 * ours[use])
    published = system.batch[data.name]
    yield Comparison(data.name, system.name, "batch", "requests", published, means["running"])
