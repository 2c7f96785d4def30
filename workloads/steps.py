"""Transforms by name, for a chain of them on a command line."""

from dataclasses import replace

from workloads.errors import InputError
from workloads.read import read_trace
from workloads.schema import Trace
from workloads.transform import (
    cap,
    first,
    merge,
    noted,
    repeat,
    scale_rate,
    snapshot,
    thin,
    time_slice,
)

STEPS = (
    "first",
    "slice",
    "thin",
    "rate",
    "snapshot",
    "repeat",
    "merge",
    "stamps",
    "max_prompt",
    "max_output",
    "max_total",
)


def apply_steps(trace: Trace, steps: list[str]) -> Trace:
    """The trace after each `name=value` in order. Raises InputError that names the step."""
    for step in steps:
        name, _, value = step.partition("=")
        try:
            trace = _applied(trace, name, value)
        except ValueError:
            raise InputError(
                f"--then {step}: {value!r} is no number, expected {name}=NUMBER"
            ) from None
        except InputError as error:
            raise InputError(f"--then {step}: {error}") from None
    return trace


def _applied(trace: Trace, name: str, value: str) -> Trace:
    if name == "first":
        return first(trace, int(value))
    if name == "slice":
        start, _, end = value.partition(":")
        return time_slice(trace, float(start), float(end))
    if name == "thin":
        share, _, seed = value.partition(":")
        return thin(trace, float(share), int(seed or 0))
    if name == "rate":
        return scale_rate(trace, float(value))
    if name == "snapshot":
        return snapshot(trace, int(value or 0))
    if name == "repeat":
        return repeat(trace, int(value))
    if name == "merge":
        return merge(trace, read_trace(value))
    if name == "stamps":
        return replace(trace, turns=None, provenance=noted(trace, "as stamped: nobody waits"))
    if name in ("max_prompt", "max_output", "max_total"):
        return cap(trace, **{name: int(value)})
    raise InputError(f"no such step, expected one of: {', '.join(STEPS)}")
