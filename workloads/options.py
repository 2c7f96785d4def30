"""Whole numbers on the command line: 1.5 is refused, where cyclopts would round it to 2."""

import math
from collections.abc import Iterable
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from workloads.errors import InputError
from workloads.incoming import shown

MOST = 2**53
SMALLEST, LARGEST = 1e-100, 1e100


def whole_numbers(app: Any, commands: tuple[str, ...], arguments: Iterable[Any]) -> None:
    """A cyclopts `config`: for an App and all commands below it, `App(config=whole_numbers)`.

    Raises InputError where an option that takes integers alone is given a fraction, and where a
    number is too large, or too close to 0, to be meant or to be worked with.
    """
    for argument in arguments:
        kinds = _scalars(argument.hint)
        if not kinds <= {int, float}:
            continue
        for token in argument.tokens:
            where = f"{token.keyword or argument.name} {shown(token.value)[1:-1]}"
            if kinds == {int} and "." in token.value:
                raise InputError(f"{where}: expected a whole number")
            bounded(where, token.value, kinds)


def bounded(where: str, text: str, kinds: set[Any]) -> None:
    """Raise InputError where the text is a number that nobody means; `kinds`: {int}, or others."""
    try:
        number = abs(float(text))
    except ValueError:
        return  # whoever converts it says what it should be
    if kinds == {int} and number > MOST:
        raise InputError(f"{where}: expected at most 2^53")
    if 0 < number < SMALLEST or LARGEST < number < math.inf:
        raise InputError(f"{where}: expected a number of {SMALLEST:g} to {LARGEST:g}")


def _scalars(hint: Any) -> set[Any]:
    """The types a hint's values may have: {int} for `tuple[int, ...] | None`."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _scalars(get_args(hint)[0])
    if origin in (Union, UnionType, list, tuple, set, frozenset):
        inner = (_scalars(part) for part in get_args(hint) if part is not Ellipsis)
        return set().union(*inner) - {type(None)}
    return {hint}
