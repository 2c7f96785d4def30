"""Least squares of a few named parameters against a measured run's request times."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.cost.kernels.all_reduce import AllReduce, assumed
from sim.cost.kernels.profile import Profile
from sim.measured.run import Measured
from sim.run.engine_presets import Engine
from sim.run.simulation import Run, Setup, execute
from workloads.errors import InputError
from workloads.schema import Floats

KERNEL_PARAMETERS = ("kernel_time", "kernel_overlap_s", "host_overhead_s")
REDUCE_PARAMETERS = tuple(f"all_reduce_{name}" for name in AllReduce._fields if name != "switch")
PARAMETERS = (*KERNEL_PARAMETERS, *REDUCE_PARAMETERS)
ROUNDS = 12
STEP = 0.03
"""Share of a parameter that a difference quotient moves: the schedule makes smaller ones noise."""

LARGE_S = {"kernel_overlap_s": 300e-6, "host_overhead_s": 3e-3}
"""What a parameter of zero is scaled by: moving it must change a step by a part in a hundred."""

Matrix = NDArray[np.float64]


FARTHEST = 2.0
"""Times itself that a parameter may move in a round."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A parameter with the half-width of its 95 % confidence interval.

    The interval takes requests as independent. They queue behind each other, so it is too narrow.
    """

    name: str
    start: float
    value: float
    half_width: float


def parameter(setup: Setup, name: str) -> float:
    """Its value before fitting. Raises InputError where it can't be fitted on this run."""
    if name not in PARAMETERS:
        raise InputError(f"--parameter {name}: expected one of {', '.join(PARAMETERS)}")
    if setup.profile is None:
        raise InputError("fit: moves a kernel profile's parameters, expected --profile")
    if name in KERNEL_PARAMETERS:
        return float(getattr(setup.engine.kernels, name))
    if setup.tp == 1:
        raise InputError(f"--parameter {name}: is not used with --tp 1")
    if "all_reduce" in setup.profile.rows:
        raise InputError(f"--parameter {name}: the profile has a table of sums over GPUs")
    return _reduce(setup)[0][name.removeprefix("all_reduce_")]


def with_parameters(setup: Setup, values: dict[str, float]) -> Setup:
    """The same run with these parameters."""
    kernels = {k: v for k, v in values.items() if k in KERNEL_PARAMETERS}
    engine: Engine = replace(setup.engine, kernels=replace(setup.engine.kernels, **_any(kernels)))
    profile = setup.profile
    reduce = {k.removeprefix("all_reduce_"): v for k, v in values.items() if k in REDUCE_PARAMETERS}
    if reduce and setup.tp > 1:
        assert profile is not None
        numbers, source = _reduce(setup)
        meta = {**profile.meta, "all_reduce": ({**numbers, **reduce}, f"fitted, from: {source}")}
        profile = Profile(meta, profile.rows, profile.label)
    return replace(setup, engine=engine, profile=profile)


def fit(
    measured: Measured, setup: Setup, names: list[str], chosen: NDArray[np.bool_] | None = None
) -> tuple[list[Fitted], Setup]:
    """Gauss-Newton on first- and last-token times of the `chosen` requests (all), halving steps."""
    mask = np.ones(len(measured.trace), dtype=bool) if chosen is None else chosen
    start = {name: parameter(setup, name) for name in names}
    scale = np.array([start[name] or LARGE_S.get(name, 1.0) for name in names])

    def residuals(x: Floats) -> Floats:
        run = execute(with_parameters(setup, dict(zip(names, x * scale, strict=True))))
        return request_residuals(measured, run, mask)

    x = np.array([start[name] for name in names]) / scale
    at = residuals(x)
    for _ in range(ROUNDS):
        slopes = _slopes(residuals, x)
        move = _move(slopes, at, x)
        better = None
        for share in (1.0, 0.5, 0.25, 0.1):
            candidate = np.maximum(x + share * move, 0.0)
            found = residuals(candidate)
            if found @ found < at @ at:
                better = candidate, found
                break
        if better is None:
            break
        done = float(np.abs(better[0] - x).max()) < 1e-3
        x, at = better
        if done:
            break
    slopes = _slopes(residuals, x)
    variance = float(at @ at) / max(len(at) - len(names), 1)
    spread = np.sqrt(np.diag(variance * np.linalg.pinv(slopes.T @ slopes)))
    values = dict(zip(names, (x * scale).tolist(), strict=True))
    fitted = [
        Fitted(name, start[name], values[name], 1.96 * float(s) * float(c))
        for name, s, c in zip(names, spread, scale, strict=True)
    ]
    return fitted, with_parameters(setup, values)


def request_residuals(measured: Measured, run: Run, mask: NDArray[np.bool_]) -> Floats:
    """Predicted minus measured stamps of the chosen requests, seconds: first tokens, then last."""
    requests = run.log.requests
    first = np.asarray(requests["first_token_s"], dtype=np.float64) - measured.first_token_s
    last = np.asarray(requests["finish_s"], dtype=np.float64) - measured.last_token_s
    return np.concatenate((first[mask], last[mask]))


def _move(slopes: Matrix, at: Floats, x: Floats) -> Floats:
    """The least-squares step, without parameters that it would take from 0 to below."""
    free = np.ones(len(x), dtype=bool)
    while True:
        move = np.zeros_like(x)
        if free.any():
            move[free] = -np.linalg.lstsq(slopes[:, free], at, rcond=None)[0]
        stuck = (x <= 0) & (move < 0)
        if not stuck.any():
            return np.clip(move, -FARTHEST, FARTHEST)
        free &= ~stuck


def _slopes(residuals: Callable[[Floats], Floats], x: Floats) -> Matrix:
    columns = []
    for i in range(len(x)):
        step = np.zeros_like(x)
        step[i] = STEP * max(abs(x[i]), 1.0)
        columns.append(residuals(x + step) - residuals(np.maximum(x - step, 0.0)))
        columns[-1] /= 2 * step[i] if x[i] >= step[i] else step[i] + x[i]
    return np.stack(columns, axis=1)


def _reduce(setup: Setup) -> tuple[dict[str, float], str]:
    given = setup.profile.meta.get("all_reduce") if setup.profile else None
    if given:
        return dict(given[0]), str(given[1])
    guess = assumed(setup.device)
    values = [constant.value for constant in guess]
    return dict(zip(AllReduce._fields, values, strict=True)), guess[0].source


def _any(values: dict[str, float]) -> dict[str, Any]:
    return dict(values)
