"""What a search is asked: which load, in which steps, or the fewest of what."""

from dataclasses import dataclass
from math import ceil, floor
from typing import Literal

from workloads.errors import InputError
from workloads.given import check_fields

Objective = Literal["load", "gpus", "cost"]
LOADS = ("request_rate", "users", "concurrency")
MOST_RUNGS = 10**6
TRIALS = 50
MOST_TRIALS = 100_000
AT_ONCE_S = 1e-3
"""Within less than a step all requests come at once: a higher rate is no other load."""


@dataclass(frozen=True)
class Question:
    """What is sought. Loads are whole multiples of `resolution`."""

    objective: Objective = "load"
    over: str = "request_rate"
    resolution: float = 0.1
    least: float | None = None  # loads tried; the resolution itself, if not given
    most: float | None = None  # without it: until the level is lost
    draws: int = 1  # seeds of arrivals under each of which the level must hold
    max_gpus: int = 64
    trials: int | None = None  # of combinations that a sampler chooses; None: all are tried
    sample_seed: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.over not in LOADS:
            raise InputError(f"--over {self.over}: expected one of {', '.join(LOADS)}")
        if not 0 < self.resolution < float("inf"):
            raise InputError(f"--resolution {self.resolution}: expected a number above 0")
        if self.over != "request_rate" and self.resolution != int(self.resolution):
            raise InputError(f"--resolution {self.resolution}: {self.over} are whole numbers")
        if not 1 <= self.draws <= 1000:
            raise InputError(f"--draws {self.draws}: expected 1 to 1,000")
        if self.max_gpus < 1:
            raise InputError(f"--max-gpus {self.max_gpus}: expected at least 1")
        if self.trials is not None and not 1 <= self.trials <= MOST_TRIALS:
            raise InputError(f"--trials {self.trials}: expected 1 to {MOST_TRIALS:,}")
        if not 0 <= self.sample_seed < 2**32:
            raise InputError(f"--sample-seed {self.sample_seed}: expected 0 to 4,294,967,295")

    @property
    def lowest(self) -> int:
        """The first load tried, in resolutions."""
        return max(1, ceil(round((self.least or self.resolution) / self.resolution, 6)))

    @property
    def rungs(self) -> int | None:
        """Loads to choose from."""
        if self.most is None:
            return None
        count = floor(round(self.most / self.resolution, 6)) - self.lowest + 1
        if not 1 <= count <= MOST_RUNGS:
            raise InputError(f"--over {self.over}: expected loads from low to high")
        return count

    def ceiling(self, requests: int) -> int | None:
        """The rung beyond which no load is another: all requests at once. None with limits."""
        if self.most is not None or self.objective != "load":
            return None
        most = requests / AT_ONCE_S if self.over == "request_rate" else requests
        return max(0, ceil(round(most / self.resolution, 6)) - self.lowest)

    def load(self, rung: int) -> float | int:
        """The load of a rung, the shortest decimal for it."""
        load = (self.lowest + rung) * self.resolution
        return int(load) if self.over != "request_rate" else float(f"{load:.12g}")


def question_of(
    over: str = "request_rate",
    resolution: float | None = None,
    minimise: str | None = None,
    draws: int = 1,
    max_gpus: int = 64,
    sampler: str | None = None,
    trials: int | None = None,
    sample_seed: int = 0,
) -> Question:
    """From text: `request_rate`, or with limits `request_rate=1:20`. Raises InputError."""
    name, _, limits = over.replace("-", "_").partition("=")
    least = most = None
    if limits:
        try:
            least, most = map(float, limits.split(":"))
        except ValueError:
            raise InputError(f"--over {over}: expected LOAD=FROM:TO, such as {name}=1:20") from None
        if not 0 < least <= most < float("inf"):
            raise InputError(f"--over {over}: expected 0 < FROM <= TO")
    if minimise not in (None, "gpus", "cost"):
        raise InputError(f"--minimise {minimise}: expected gpus or cost")
    objective: Objective = "load"
    if minimise is not None:
        objective = "gpus" if minimise == "gpus" else "cost"
    if sampler not in (None, "tpe"):
        raise InputError(f"--sampler {sampler}: expected tpe")
    if sampler is None and trials is not None:
        raise InputError("--trials: expected --sampler tpe beside it")
    if sampler is not None:
        trials = TRIALS if trials is None else trials
    step = resolution if resolution is not None else 0.1 if name == "request_rate" else 1
    return Question(objective, name, step, least, most, draws, max_gpus, trials, sample_seed)
