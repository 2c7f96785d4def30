"""Whole numbers on the command line: 1.5 is refused, where cyclopts would round it to 2."""

from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from workloads.errors import InputError


def whole_numbers(app: Any, commands: tuple[str, ...], arguments: Iterable[Any]) -> None:
    """A cyclopts `config`: for an App and all commands below it, `App(config=whole_numbers)`.

    Raises InputError where an option that takes integers alone is given a fraction.
    """
    for argument in arguments:
        if _scalars(argument.hint) != {int}:
            continue
        for token in argument.tokens:
            if "." in token.value:
                name = token.keyword or argument.name
                raise InputError(f"{name} {token.value}: expected a whole number")


def _scalars(hint: Any) -> set[Any]:
    """The types a hint's values may have: {int} for `tuple[int, ...] | None`."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _scalars(get_args(hint)[0])
    if origin in (Union, UnionType, list, tuple, set, frozenset):
        inner = (_scalars(part) for part in get_args(hint) if part is not Ellipsis)
        return set().union(*inner) - {type(None)}
    return {hint}
