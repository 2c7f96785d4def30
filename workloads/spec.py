"""Options written as `kind:key=value,...`, such as `lognormal:mean=1000,cv=1.2`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from workloads.errors import InputError

# Nothing anybody means is beyond these, and within them squares stay finite.
_SMALLEST, _LARGEST = 1e-6, 1e12

_ALIKE = 0.6
"""Words less alike have nothing to do with each other: no hint is better than a far one."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed text: its kind and its numbers by key."""

    text: str
    kind: str
    options: dict[str, float]

    def fields(self, *required: str) -> tuple[float, ...]:
        """The values of exactly these keys, in this order, all > 0."""
        if set(self.options) != set(required):
            given = ", ".join(self.options) or "none"
            needed = f"all of {', '.join(required)}" if required else "none"
            raise InputError(f"{self.text!r}: {self.kind} needs {needed}, found {given}")
        return tuple(self.options[key] for key in required)


def parse(text: str, kinds: tuple[str, ...]) -> Spec:
    """Parse a spec of one of the kinds. Raises InputError; which keys a kind takes is its own."""
    kind, given = key_values(text, repr(text))
    if kind not in kinds:
        raise InputError(f"{text!r}: unknown kind {kind!r}, expected one of: {', '.join(kinds)}")
    options = {key: _number(f"{text!r}: {key}", value) for key, value in given.items()}
    return Spec(text, kind, options)


def key_values(text: str, where: str) -> tuple[str, dict[str, str]]:
    """The name before the colon, and the `key=value` after it, as they are written.

    Raises InputError starting with `where` for a part that isn't one, or a key given twice.
    """
    name, _, rest = text.strip().partition(":")
    given: dict[str, str] = {}
    for pair in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not (equals and key and value):
            raise InputError(f"{where}: {pair!r}, expected option=value")
        if key in given:
            raise InputError(f"{where}: {key} is given twice")
        given[key] = value
    return name, given


def suggestion(word: str, known: Iterable[str]) -> str:
    """What was meant, or what there is: ends the message about a name that isn't known."""
    names = sorted(known)
    from difflib import get_close_matches  # late: few names are unknown

    lower = word.lower()
    close = get_close_matches(lower, names, n=1, cutoff=_ALIKE)
    if not close and len(lower) > 2:
        close = [name for name in names if name.startswith(lower)]  # the rest was left out
    listed = ", ".join(names) or "none"
    return f"did you mean {close[0]!r}?" if close else f"expected one of {listed}"


def _number(what: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not _SMALLEST <= number <= _LARGEST:
        raise InputError(f"{what} is {value}, expected a number from {_SMALLEST:g} to {_LARGEST:g}")
    return number
