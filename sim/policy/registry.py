"""Policies by name, and the command-line form that composes them.

`paging:block_size=16+sliding_window:window=4096+int8` makes
`Paging(block_size=16) + SlidingWindow(window=4096) + Int8()`. A third-party package adds policies
through the entry-point group `kvtwin.policies`, whose names are policy names and whose objects are
frozen dataclasses: subclasses of `Policy`, or of an axis in `sim.policy.spec`. A file's come by
`sim.policy.plugins.load_file`.
"""

from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches

from sim.policy import plugins
from sim.policy.chunked import Chunked
from sim.policy.growing import Growing
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.prefix import Prefix
from sim.policy.sliding_window import SlidingWindow
from sim.policy.spec import Policy, compose
from sim.policy.storage import Fp8, Int4, Int8
from sim.policy.top_k import TopK
from sim.policy.virtual import Virtual
from workloads.errors import InputError

BUILT_IN: dict[str, type[Policy]] = {
    "preallocation": Preallocation,
    "growing": Growing,
    "chunked": Chunked,
    "paging": Paging,
    "virtual": Virtual,
    "sliding_window": SlidingWindow,
    "top_k": TopK,
    "prefix": Prefix,
    "fp8": Fp8,
    "int8": Int8,
    "int4": Int4,
}


def policies() -> dict[str, type[Policy]]:
    """All policies by name, third-party ones included; built-in names can't be taken over."""
    return {**plugins.found().policies, **BUILT_IN}


def plugin_notes() -> list[str]:
    """A line for each plug-in that brings nothing, or a name that is built in."""
    found = plugins.found()
    taken = [name for name in found.policies if name in BUILT_IN]
    return [
        *found.notes,
        *(f"plug-in {name}: the name is built in, and stays so" for name in taken),
    ]


def parse_policy(spec: str) -> Policy:
    """The policy that `placement[:options]` and `+modifier[:options]` after it name.

    Raises InputError in one line: the closest name or option where the given one is unknown, or
    why parts don't go together.
    """
    parts = [_parse_part(spec, part) for part in spec.split("+")]
    try:
        return compose(*parts)
    except InputError as error:
        raise InputError(f"--policy {spec}: {error}") from None


def _parse_part(spec: str, part: str) -> Policy:
    name, _, options = part.partition(":")
    kind = BUILT_IN.get(name) or policies().get(name)
    if kind is None:
        why = "".join(f"; {note}" for note in plugin_notes())
        raise InputError(f"--policy {spec}: no policy {name!r}{_closest(name, policies())}{why}")
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
    if not given:
        return kind()
    from pydantic import TypeAdapter, ValidationError  # late: it takes a third of the start

    try:
        return TypeAdapter(kind).validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][0] if first["loc"] else name
        raise InputError(
            f"--policy {spec}: {field}={first['input']!r}: {first['msg'].lower()}"
        ) from None


def _closest(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = get_close_matches(word, names, n=1)
    listed = ", ".join(names) or "none"
    return f"; did you mean {close[0]!r}?" if close else f"; expected one of {listed}"
