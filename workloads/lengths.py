"""Length distributions: how long prompts and outputs are drawn."""

import math
from collections.abc import Callable

import numpy as np

from workloads import spec
from workloads.errors import InputError
from workloads.read import Lengths
from workloads.schema import Floats, Ints

# (requests, generator) -> tokens (requests,), each >= 1
LengthDistribution = Callable[[int, "np.random.Generator"], Ints]

KINDS = ("fixed", "uniform", "lognormal")

_LONGEST_TOKENS = 1 << 31


def parse_length(text: str) -> LengthDistribution:
    """`1024`, `fixed:tokens=1024`, `uniform:low=1,high=100`, `lognormal:mean=1000,cv=1.2`.

    A lognormal takes `sigma`, the deviation of the logarithm, in place of `cv`. Raises InputError.
    """
    if text.strip().isdecimal():
        text = f"fixed:tokens={text.strip()}"
    parsed = spec.parse(text, KINDS)
    if parsed.kind == "fixed":
        (tokens,) = parsed.fields("tokens")
        return fixed(_whole(text, "tokens", tokens))
    if parsed.kind == "uniform":
        low, high = parsed.fields("low", "high")
        if low > high:
            raise InputError(f"{text!r}: low is {low:g}, expected at most high, {high:g}")
        return uniform(_whole(text, "low", low), _whole(text, "high", high))
    if "sigma" in parsed.options:
        mean, sigma = parsed.fields("mean", "sigma")
    else:
        mean, cv = parsed.fields("mean", "cv")
        sigma = math.sqrt(math.log1p(cv**2))
    return lognormal(mean, sigma)


def fixed(tokens: int) -> LengthDistribution:
    """Always `tokens`."""
    return lambda requests, rng: np.full(requests, tokens, np.int64)


def uniform(low: int, high: int) -> LengthDistribution:
    """Whole numbers from low to high, both included."""
    return lambda requests, rng: rng.integers(low, high, requests, endpoint=True)


def lognormal(mean: float, sigma: float) -> LengthDistribution:
    """Arithmetic mean `mean` in tokens, sigma of the logarithm; rounded, and at least 1 token."""
    location = math.log(mean) - sigma**2 / 2

    def distribution(requests: int, rng: "np.random.Generator") -> Ints:
        drawn: Floats = np.rint(rng.lognormal(location, sigma, requests))
        if drawn.max() > _LONGEST_TOKENS:
            raise InputError(
                f"a lognormal of mean {mean:g} and sigma {sigma:g} draws {drawn.max():.3g} tokens,"
                f" expected at most {_LONGEST_TOKENS}"
            )
        return np.maximum(drawn, 1).astype(np.int64)

    return distribution


def resample(lengths: Lengths, requests: int, rng: "np.random.Generator") -> tuple[Ints, Ints]:
    """Prompts and outputs (requests,) drawn as pairs with replacement: they stay correlated."""
    rows = rng.integers(0, len(lengths), requests)
    return lengths.prompt_tokens[rows], lengths.output_tokens[rows]


def _whole(text: str, key: str, value: float) -> int:
    if not value.is_integer() or not 1 <= value <= _LONGEST_TOKENS:
        raise InputError(
            f"{text!r}: {key} is {value:g}, expected a whole number from 1 to {_LONGEST_TOKENS}"
        )
    return int(value)
