"""Grids of options: lists and ranges as text, every combination of them or a sample.

Any option of `RunOptions` may vary, and any option of a policy by its own name, such as block_size.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal, InvalidOperation
from functools import cache
from itertools import islice
from math import isfinite, prod
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sim.policy.registry import label_of, policies
from sim.run.options import RunOptions, check_option
from workloads.errors import InputError
from workloads.incoming import shown
from workloads.options import bounded
from workloads.spec import key_values, suggestion

MOST_VALUES = 100_000
"""Of one option; a range of more is a slip of the pen."""

MOST_RUNS = 1_000_000
"""Of a whole grid, or drawn from it."""

Value = Any  # of an option: text, a number, or in Python the thing that text names
Axes = dict[str, tuple[Value, ...]]


@dataclass(frozen=True)
class Grid:
    """Base options, and what varies in them. The first axis varies slowest."""

    base: RunOptions
    axes: Axes

    def __len__(self) -> int:
        return prod(len(values) for values in self.axes.values())

    @property
    def varied(self) -> list[str]:
        """Options that differ between combinations; those of policies show in the policy."""
        own = [name for name in self.axes if name in option_names()]
        return own if len(own) == len(self.axes) else list(dict.fromkeys(["policy", *own]))

    def at(self, number: int) -> dict[str, Value]:
        """The values of one combination by option."""
        found = {}
        for name, values in reversed(self.axes.items()):
            number, place = divmod(number, len(values))
            found[name] = values[place]
        return dict(reversed(found.items()))

    def points(self, sample: int | None = None, seed: int = 0) -> Iterator[dict[str, Value]]:
        """Every combination in order, or so many of them drawn without repetition, in order.

        Raises InputError for a sample below 1.
        """
        if sample is not None and sample < 1:
            raise InputError(f"--sample {sample}: expected at least 1")
        size = prod(len(values) for values in self.axes.values())  # len() stops at 2^63
        if min(size, sample or size) > MOST_RUNS:
            raise InputError(
                f"{shown(size)} combinations, expected at most {MOST_RUNS:,}, or a --sample of them"
            )
        if size >= 2**63:
            raise InputError(f"{shown(size)} combinations, expected fewer than 2^63")
        if sample is None or sample >= size:
            return map(self.at, range(len(self)))
        drawn = random.Random(seed).sample(range(len(self)), sample)
        return map(self.at, sorted(drawn))

    def options(self, point: Mapping[str, Value]) -> RunOptions:
        """The options of one combination."""
        return with_values(self.base, point)


def with_values(base: RunOptions, point: Mapping[str, Value]) -> RunOptions:
    """The options with these values, those of policies put into the policy's text."""
    known = option_names()
    options = replace(base, **{name: value for name, value in point.items() if name in known})
    text = options.policy if isinstance(options.policy, str) else label_of(options.policy)
    changed = text
    for name, value in point.items():
        if name not in known:
            changed = _with_policy_option(changed, name, value)
    return options if changed == text else replace(options, policy=changed)


def _with_policy_option(spec: str, name: str, value: Value) -> str:
    """The policy with the option in whichever part has it; as it is where none has."""
    parts = []
    for part in spec.split("+"):
        kind, given = key_values(part, f"--policy {spec}")
        known = policies().get(kind)
        if known is not None and name in {field.name for field in fields(known)}:
            given[name] = str(value)
            part = f"{kind}:{','.join(f'{key}={one}' for key, one in given.items())}"
        parts.append(part)
    return "+".join(parts)


def make_grid(base: RunOptions, axes: Mapping[str, Sequence[Value]]) -> Grid:
    """A grid of values already read. Raises InputError for what can't vary, naming it."""
    named = base.policy if isinstance(base.policy, str) else label_of(base.policy)
    kinds = [*map(str, axes.get("policy", ())), named]
    parts = {part.partition(":")[0] for kind in kinds for part in kind.split("+")}
    of_policies = {
        field.name for name, kind in policies().items() if name in parts for field in fields(kind)
    }
    for name, values in axes.items():
        if name not in option_names() | of_policies:
            known = sorted(option_names() | of_policies)
            raise InputError(f"--set {name}: no such option; {suggestion(name, known)}")
        if not len(values):
            raise InputError(f"--set {name}: expected at least one value")
        if name in option_names():
            for value in values:
                check_option(name, value)
        if len({str(value) for value in values}) < len(values):
            raise InputError(f"--set {name}: a value is given twice")
    return Grid(base, {name: tuple(values) for name, values in axes.items()})


def read_values(name: str, texts: Sequence[str]) -> list[Value]:
    """Values of an option: `16,32`, `1:12:1` (both ends included), or whole where it holds "=".

    Raises InputError in one line.
    """
    values: list[Value] = []
    for text in texts:
        if "=" in text or name == "policy":
            values.append(text)
            continue
        for part in text.split(","):
            if not part.strip():
                raise InputError(f"--set {name}={text}: expected values between the commas")
            values += _range(name, part) if _is_range(name, part) else [_read(name, part.strip())]
    return values


def _is_range(name: str, text: str) -> bool:
    numeric = name not in option_names() or _kind(name) in (int, float)
    return numeric and text.count(":") == 2


def _range(name: str, text: str) -> list[Value]:
    """From, to (included) and step, in exact decimals: 0.1:0.3:0.1 ends at 0.3."""
    where = f"--set {name}={shown(text)[1:-1]}"
    for part in text.split(":"):
        bounded(where, part, {_kind(name) if name in option_names() else float})
    try:
        low, high, step = (Decimal(part) for part in text.split(":"))
        finite = all(isfinite(float(number)) for number in (low, high, step))
    except InvalidOperation:
        finite = False
    if not finite or step <= 0 or high < low:
        raise InputError(f"{where}: expected FROM:TO:STEP, such as 1:12:1")
    if (high - low) / step > MOST_VALUES:
        raise InputError(f"{where}: expected at most {MOST_VALUES:,} values")
    count = int((high - low) // step) + 1
    numbers = (low + step * number for number in range(count))
    return [_read(name, f"{number:f}") for number in islice(numbers, count)]


def _read(name: str, text: str) -> Value:
    """One value, of the option's own type."""
    if name not in option_names():
        return text
    kind = _kind(name)
    try:
        if kind is bool:
            return {"true": True, "false": False}[text.lower()]
        if kind in (int, float):
            bounded(f"--set {name}={shown(text)[1:-1]}", text, {kind})
            return kind(text)
    except (ValueError, KeyError):
        expected = {int: "a whole number", float: "a number", bool: "true or false"}[kind]
        raise InputError(f"--set {name}={text}: expected {expected}") from None
    if isinstance(kind, tuple) and text not in kind:
        raise InputError(f"--set {name}={text}: expected one of {', '.join(kind)}")
    return text


@cache
def option_names() -> frozenset[str]:
    """Options of a run."""
    return frozenset(field.name for field in fields(RunOptions))


@cache
def _kind(name: str) -> Any:
    """int, float, bool or str; of a Literal, the texts that it allows."""
    hint = get_type_hints(RunOptions)[name]
    choices = [hint, *get_args(hint)]
    for one in choices:
        if get_origin(one) is Literal:
            return get_args(one)
    return next((kind for kind in (bool, int, float) if kind in choices), str)
