"""Policies by name, and the command-line form that composes them.

`paging:block_size=16+sliding_window:window=4096+int8` makes
`Paging(block_size=16) + SlidingWindow(window=4096) + Int8()`. A third-party package adds policies
through the entry-point group `kvtwin.policies`, whose names are policy names and whose objects are
frozen dataclasses: subclasses of `Policy`, or of an axis in `sim.policy.spec`. A file's come by
`sim.policy.plugins.load_file`.
"""

import sys
from contextlib import redirect_stdout
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sim.policy import plugins
from sim.policy.chunked import Chunked
from sim.policy.growing import Growing
from sim.policy.paging import Paging
from sim.policy.preallocation import Preallocation
from sim.policy.prefix import Prefix
from sim.policy.sliding_window import SlidingWindow
from sim.policy.spec import Policy, compose, parts_of, spec_name
from sim.policy.storage import Fp8, Int4, Int8
from sim.policy.top_k import TopK
from sim.policy.virtual import Virtual
from workloads.errors import InputError
from workloads.spec import key_values, suggestion

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_readers: "dict[type[Any], TypeAdapter[Any]]" = {}
"""Of a class's options; making one takes milliseconds, as long as a short run."""

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
    where = f"--policy {spec}"
    name, given = key_values(part, where)
    kind = BUILT_IN.get(name) or policies().get(name)
    if kind is None:
        why = "".join(f"; {note}" for note in plugin_notes() if note not in plugins.told)
        said = "give --policy once for each" if "," in name else suggestion(name, policies())
        raise InputError(f"{where}: no policy {name!r}; {said}{why}")
    return build(kind, name, given, where)


def build(kind: type[T], name: str, given: dict[str, str], where: str) -> T:
    """A dataclass of options from text. Raises InputError starting with `where`."""
    options = fields(kind) if is_dataclass(kind) else ()
    known = {f.name for f in options}
    for key in given:
        if not known:
            hint = "" if "__dataclass_params__" in vars(kind) else " (is @dataclass missing?)"
            raise InputError(f"{where}: {name} takes no options{hint}")
        if key not in known:
            raise InputError(f"{where}: {name} has no option {key!r}; {suggestion(key, known)}")
    needed = [f.name for f in options if f.default is f.default_factory is MISSING]
    if missing := [option for option in needed if option not in given]:
        raise InputError(f"{where}: expected {name}:{missing[0]}=...")
    try:
        with redirect_stdout(sys.stderr):
            return _made(kind, name, given, where)
    except InputError:
        raise
    except Exception as error:  # whatever a stranger's class raises
        text = " ".join(str(error).split())
        raise InputError(f"{where}: {name}: {type(error).__name__}: {text}") from error


def _made(kind: type[T], name: str, given: dict[str, str], where: str) -> T:
    if not given:
        return kind()
    from pydantic import TypeAdapter, ValidationError  # late: it takes a third of the start

    if kind not in _readers:
        _readers[kind] = TypeAdapter(kind)
    try:
        return cast(T, _readers[kind].validate_python(given))
    except ValidationError as error:
        first = error.errors()[0]
        field = first["loc"][0] if first["loc"] else name
        raise InputError(f"{where}: {field}={first['input']!r}: {first['msg'].lower()}") from None


def label_of(policy: Policy) -> str:
    """The command-line form that names the policy: options that aren't the defaults."""
    names = {kind: name for name, kind in policies().items()}
    return "+".join(_part_label(part, names) for part in parts_of(policy))


def _part_label(part: Policy, names: dict[type[Policy], str]) -> str:
    options = [
        f"{f.name}={getattr(part, f.name)}"
        for f in fields(part)
        if getattr(part, f.name) != f.default
    ]
    name = names.get(type(part), spec_name(type(part)))
    return f"{name}:{','.join(options)}" if options else name
