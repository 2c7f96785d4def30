"""Options written as `kind:key=value,...`, such as `lognormal:mean=1000,cv=1.2`."""

import math
from dataclasses import dataclass

from workloads.errors import InputError


@dataclass(frozen=True, slots=True)
class Spec:
    """A parsed text: its kind and its numbers by key."""

    text: str
    kind: str
    options: dict[str, float]

    def fields(self, *required: str) -> tuple[float, ...]:
        """The values of exactly these keys, in this order, all finite and > 0."""
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
        options[key] = positive(f"{text!r}: {key}", value)
    return Spec(text, kind, options)


def positive(what: str, value: str | float) -> float:
    """`value` as a finite number > 0. Raises InputError that begins with `what`."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise InputError(f"{what} is {value}, expected a finite number > 0")
    return number
