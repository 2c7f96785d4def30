"""A function of `RunOptions` as one of keywords, which are told apart before anything is made."""

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, TypeVar

from sim.run.options import RunOptions
from workloads.errors import InputError
from workloads.schema import TraceLike
from workloads.spec import suggestion

Options = ParamSpec("Options")
Result = TypeVar("Result")

INSTEAD = {
    "output": "nothing is written by itself; run.report(path) writes a run's page",
    "plugin": "give the policy itself, policy=Mine(...)",
    "json": "results are data: run.metrics, run.requests, run.steps, run.timeline",
}
"""The command line's own options, and what Python has instead."""


def check_names(given: Mapping[str, Any], known: Mapping[str, Parameter]) -> None:
    """Raises InputError for an option that isn't known, or one that is missing."""
    for name in given:
        if name not in known:
            raise InputError(f"no option {name!r}; {INSTEAD.get(name) or suggestion(name, known)}")
    for name, option in known.items():
        if option.default is Parameter.empty and name not in given:
            raise InputError(f"{name}: missing")


def by_keyword(
    make: Callable[[TraceLike, RunOptions], Result],
    options: Callable[Options, RunOptions],
) -> Callable[Concatenate[TraceLike, Options], Result]:
    """The same by keyword: the options of `RunOptions` in place of one."""

    def made(trace: TraceLike, /, *args: Options.args, **given: Options.kwargs) -> Result:
        check_names(given, signature(options).parameters)
        return make(trace, options(*args, **given))

    first = signature(make).parameters["trace"]
    shown = signature(RunOptions).replace(
        parameters=[first, *signature(options).parameters.values()]
    )
    made.__doc__ = make.__doc__
    made.__signature__ = shown  # type: ignore[attr-defined]  # by help() and editors
    return made
