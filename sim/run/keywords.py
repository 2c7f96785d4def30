"""Functions of keywords, which are told apart before anything is made."""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from sim.run.options import RunOptions
from workloads.errors import InputError
from workloads.schema import Trace, TraceLike
from workloads.spec import suggestion

Options = ParamSpec("Options")
Result = TypeVar("Result")

INSTEAD = {
    "output": "nothing is written by itself; run.report(path) writes a run's page",
    "plugin": "give the policy itself, policy=Mine(...)",
    "json": "results are data: run.metrics, run.requests, run.steps, run.timeline",
    "jobs": "a run is one process; sweep(..., jobs=N) takes several",
    "report": "run.report(path) writes a run's page",
    "check": "only the command line has it: kvtwin simulate --check",
    "interval": "only the command line has it: kvtwin simulate --interval",
    "lang": "only the command line has it: kvtwin --lang",
}
"""The command line's own options, and what Python has instead."""


def check_names(
    given: Mapping[str, Any],
    known: Mapping[str, Parameter],
    instead: Mapping[str, str] = INSTEAD,
) -> None:
    """Raises InputError for an option that isn't known, or one that is missing."""
    for name in given:
        if name not in known:
            raise InputError(f"no option {name!r}; {instead.get(name) or suggestion(name, known)}")
    for name, option in known.items():
        if option.default is Parameter.empty and name not in given:
            raise InputError(f"{name}: missing")


def names_told(function: Callable[Options, Result]) -> Callable[Options, Result]:
    """The same, but an argument that is missing or isn't known is an InputError, no TypeError."""
    known = {
        name: parameter
        for name, parameter in signature(function).parameters.items()
        if parameter.kind is not Parameter.VAR_KEYWORD
    }
    takes_more = len(known) < len(signature(function).parameters)

    @wraps(function)
    def told(*args: Options.args, **given: Options.kwargs) -> Result:
        placed = dict(zip(known, args, strict=False))
        named = {name: value for name, value in given.items() if not takes_more or name in known}
        check_names(placed | named, known, {})
        return function(*args, **given)

    return told


def checked_trace(trace: TraceLike) -> TraceLike:
    """The same. Raises InputError for a Trace that isn't as a reader would make it."""
    if isinstance(trace, Trace):
        from workloads.by_hand import check_trace  # late: readers are many

        check_trace(trace)
    return trace


def by_keyword(
    name: str,
    make: Callable[[TraceLike, RunOptions], Result],
    options: Callable[Options, RunOptions],
) -> Callable[Concatenate[TraceLike, Options], Result]:
    """The same, called `name`, by keyword: the options of `RunOptions` in place of one.

    The trace may be given by its name, too.
    """
    first = signature(make).parameters["trace"]
    choices = signature(options).parameters

    def made(*args: Any, **given: Any) -> Result:
        if len(args) > 1:
            raise InputError(f"{name}: expected one trace, and options by name: model=...")
        by_name = dict(zip(("trace",), args, strict=False))
        if args and "trace" in given:
            raise InputError("trace: given twice")
        check_names(given | by_name, {"trace": first, **choices})
        trace = given.pop("trace", None) if not args else args[0]
        chosen = options(**given)  # type: ignore[call-arg]  # names are known by now
        return make(checked_trace(trace), chosen)

    made.__name__ = made.__qualname__ = name
    made.__module__ = make.__module__
    made.__doc__ = make.__doc__
    made.__signature__ = signature(make).replace(  # type: ignore[attr-defined]  # by help()
        parameters=[first, *choices.values()]
    )
    return made
