"""Policies by name. `paging:block_size=16` makes `Paging(block_size=16)`.

A third-party package adds one through the entry-point group `kvtwin.policies`, whose names are
policy names and whose objects are `Policy` dataclasses.
"""

from dataclasses import fields
from difflib import get_close_matches
from importlib.metadata import entry_points

from pydantic import TypeAdapter, ValidationError

from sim.policy.base import Policy
from sim.policy.contiguous import Contiguous
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.sliding_window import SlidingWindow
from workloads.errors import InputError

BUILT_IN: dict[str, type[Policy]] = {
    "preallocation": Preallocation,
    "contiguous": Contiguous,
    "sliding_window": SlidingWindow,
    "paging": Paging,
}


def policies() -> dict[str, type[Policy]]:
    """All policies by name, third-party ones included; built-in names can't be taken over."""
    found = {point.name: point.load() for point in entry_points(group="kvtwin.policies")}
    return {**found, **BUILT_IN}


def parse_policy(spec: str) -> Policy:
    """The policy that a command-line form such as `sliding_window:window=4096,sinks=4` names.

    Raises InputError naming the closest policy or option where the given one is unknown.
    """
    name, _, options = spec.partition(":")
    kind = BUILT_IN.get(name) or policies().get(name)
    if kind is None:
        raise InputError(f"--policy {spec}: no policy {name!r}{_closest(name, policies())}")
    known = {f.name for f in fields(kind)}
    given: dict[str, str] = {}
    for option in filter(None, options.split(",")):
        key, equals, value = option.partition("=")
        if not equals or not value:
            raise InputError(f"--policy {spec}: {option!r}, expected option=value")
        if key not in known:
            raise InputError(f"--policy {spec}: {name} has no option {key!r}{_closest(key, known)}")
        if key in given:
            raise InputError(f"--policy {spec}: {key} is given twice")
        given[key] = value
    try:
        return TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][0] if first["loc"] else name
        raise InputError(
            f"--policy {spec}: {field}={first['input']!r}: {first['msg'].lower()}"
        ) from None


def _closest(word: str, known: "set[str] | dict[str, type[Policy]]") -> str:
    close = get_close_matches(word, known, n=1)
    listed = ", ".join(sorted(known)) or "none"
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {listed}"
