"""Methods of classes as functions over records: the same text, for a compiler without objects.

What a class does is written once, in Python. Here its methods' sources are rewritten, name by name:
`self.free` becomes a field of one record, `seq.stored` one of a request's, lists of requests become
stretches of one array of integers, instants become pairs of 64 bits. Nothing is decided anew, so
the two forms can't drift apart. Whatever has no rule raises `NotLowered`, and is interpreted.

One text serves all kinds of managers: what others ask of a manager looks up its kind, methods that
come out alike are there once.
"""

import ast
import inspect
import re
import textwrap

from sim.run.compiled.kinds import GIVEN
from sim.run.compiled.rules import NotLowered
from sim.run.compiled.statements import Body


class Lowering:
    """Functions by name, made on demand, and the lists that they touch."""

    def __init__(self, classes: dict[str, type], managers: tuple[type, ...]) -> None:
        self.classes = classes  # by role
        self.managers = managers
        self.functions: dict[str, str] = {}
        self.lists: set[tuple[str, str]] = set()
        self.scratch: set[str] = set()
        self._asked: dict[str, list[str]] = {}  # of managers: a function for each kind
        self._wanted: list[tuple[str, str, type, str, type | None]] = []

    def need(self, role: str, method: str, after: type | None = None) -> str:
        """The name of a role's method, or of the next one behind a class; it is made later."""
        if f"{role}_{method}" in GIVEN:
            return f"{role}_{method}"
        if role == "manager":
            name = f"manager_{method}"
            if name not in self._asked:
                self._asked[name] = [self.need_of(kind, method) for kind in self.managers]
            return name
        name, owner = self._owner(self.classes[role], role, method, after)
        return self._want(name, role, owner, method, None)

    def need_of(self, manager: type, method: str, after: type | None = None) -> str:
        """The same of one kind of manager, for itself."""
        if method == "tallied":
            return self._tallied(manager)
        name, owner = self._owner(manager, manager.__name__, method, after)
        return self._want(f"{name}_{owner.__name__}", "manager", owner, method, manager)

    def text(self) -> str:
        """The source of all functions asked for, and of those that they ask for."""
        while self._wanted:
            name, role, owner, method, manager = self._wanted.pop()
            asked = self if manager is None else OfManager(self, manager)
            self.functions[name] = Body(asked, role, owner).function(_source(owner, method), name)
        functions, same = _merged(self.functions)
        made = [*functions.values()]
        for name, kinds in self._asked.items():
            made.append(_chosen(name, [same.get(each, each) for each in kinds], functions))
        return "\n\n".join(made)

    def _owner(self, kind: type, start: str, method: str, after: type | None) -> tuple[str, type]:
        order = kind.__mro__
        if after is not None:
            order = order[order.index(after) + 1 :]
        owner = next((each for each in order if method in vars(each)), None)
        if owner is None:
            raise NotLowered(f"{start}.{method}")
        return f"{start}_{method}", owner

    def _want(self, name: str, role: str, owner: type, method: str, manager: type | None) -> str:
        if name not in self.functions:
            self.functions[name] = ""
            self._wanted.append((name, role, owner, method, manager))
        return name

    def _tallied(self, manager: type) -> str:
        """Its tally into S, for tallies are of different lengths."""
        name = f"{manager.__name__}_tallied"
        tally = self.need_of(manager, "tally")
        self.functions[name] = (
            f"def {name}(S, at):\n    tally = {tally}(S)\n"
            "    for i in range(len(tally)):\n        S[at + i] = tally[i]\n"
        )
        return name


class OfManager:
    """What methods of one kind of manager ask for."""

    def __init__(self, whole: Lowering, manager: type) -> None:
        self._whole, self._manager = whole, manager
        self.lists, self.scratch = whole.lists, whole.scratch

    def need(self, role: str, method: str, after: type | None = None) -> str:
        """As `Lowering.need`."""
        if role == "manager":
            return self._whole.need_of(self._manager, method, after)
        return self._whole.need(role, method, after)


def _source(owner: type, method: str) -> ast.FunctionDef:
    found = vars(owner)[method]
    getter = found.fget if isinstance(found, property) else found
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(getter))).body  # type: ignore[arg-type]
    if not isinstance(node, ast.FunctionDef):
        raise NotLowered(f"{owner.__name__}.{method}")
    return node


def _merged(functions: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The functions without those that do as another does, and which that is."""
    same: dict[str, str] = {}
    while True:
        first: dict[str, str] = {}
        found = {}
        for name, text in functions.items():
            one = first.setdefault(text.replace(f"def {name}(", "def (", 1), name)
            if one != name:
                found[name] = one
        if not found:
            return functions, same
        same = {name: found.get(one, one) for name, one in same.items()} | found
        names = re.compile(rf"\b({'|'.join(found)})\b(?=\()")
        functions = {
            name: names.sub(lambda match: found[match[1]], text)  # noqa: B023
            for name, text in functions.items()
            if name not in found
        }


def _chosen(name: str, kinds: list[str], functions: dict[str, str]) -> str:
    """A function that does what the run's kind of manager does."""
    (header,) = re.findall(r"^def \w+\((.*)\):$", functions[kinds[0]], re.MULTILINE)[:1]
    said = ", ".join(part.partition("=")[0] for part in header.split(", "))
    usual = max(kinds, key=kinds.count)
    lines = [f"def {name}({header}):", "    kind = S[run_manager]"]
    for other in dict.fromkeys(kinds):
        if other != usual:
            places = " or ".join(f"kind == {i}" for i, each in enumerate(kinds) if each == other)
            lines += [f"    if {places}:", f"        return {other}({said})"]
    return "\n".join([*lines, f"    return {usual}({said})", ""])
