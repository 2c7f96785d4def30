"""Options written as `kind:key=value,...`, such as `lognormal:mean=1000,cv=1.2`."""

import math
from dataclasses import dataclass

from workloads.errors import InputError

# Nothing anybody means is beyond these, and within them squares stay finite.
_SMALLEST, _LARGEST = 1e-6, 1e12


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
            needed = ", ".join(required) or "none"
            raise InputError(
                f"{self.text!r}: {self.kind} takes the options {needed}, found {given}"
            )
        return tuple(self.options[key] for key in required)


def parse(text: str, kinds: tuple[str, ...]) -> Spec:
    """Parse a spec of one of the kinds. Raises InputError; which keys a kind takes is its own."""
    kind, _, rest = text.strip().partition(":")
    if kind not in kinds:
        raise InputError(f"{text!r}: unknown kind {kind!r}, expected one of: {', '.join(kinds)}")
    options: dict[str, float] = {}
    for pair in rest.split(",") if rest else []:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise InputError(f"{text!r}: {pair!r} is no option, expected key=value")
        if key in options:
            raise InputError(f"{text!r}: {key} is given twice")
        options[key] = _number(f"{text!r}: {key}", value)
    return Spec(text, kind, options)


def _number(what: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not _SMALLEST <= number <= _LARGEST:
        raise InputError(f"{what} is {value}, expected a number from {_SMALLEST:g} to {_LARGEST:g}")
    return number
