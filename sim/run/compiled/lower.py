"""Methods of classes as functions over records: the same text, for a compiler without objects.

What a class does is written once, in Python. Here its methods' sources are rewritten, name by name:
`self.free` becomes a field of one record, `seq.stored` one of a request's, lists of requests become
stretches of one array of integers, instants become pairs of 64 bits. Nothing is decided anew, so
the two forms can't drift apart. Whatever has no rule raises `NotLowered`, and is interpreted.
"""

import ast
import inspect
import textwrap

from sim.run.compiled.kinds import GIVEN
from sim.run.compiled.rules import Body, NotLowered


class Lowering:
    """Functions by name, made on demand, and the lists that they touch."""

    def __init__(self, classes: dict[str, type]) -> None:
        self.classes = classes  # by role
        self.functions: dict[str, str] = {}
        self.lists: set[tuple[str, str]] = set()
        self.scratch: set[str] = set()
        self._wanted: list[tuple[str, type, str, str]] = []

    def need(self, role: str, method: str, after: type | None = None) -> str:
        """The name of a role's method, or of the next one behind a class; it is made later."""
        if f"{role}_{method}" in GIVEN:
            return f"{role}_{method}"
        order = self.classes[role].__mro__
        if after is not None:
            order = order[order.index(after) + 1 :]
        kind = next((each for each in order if method in vars(each)), None)
        if kind is None:
            raise NotLowered(f"{role}.{method}")
        name = f"{role}_{method}" if after is None else f"{role}_{kind.__name__}_{method}"
        if name not in self.functions:
            self.functions[name] = ""
            self._wanted.append((role, kind, method, name))
        return name

    def text(self) -> str:
        """The source of all functions asked for, and of those that they ask for."""
        while self._wanted:
            role, kind, method, name = self._wanted.pop()
            self.functions[name] = self._function(role, kind, method, name)
        return "\n\n".join(self.functions.values())

    def _function(self, role: str, kind: type, method: str, name: str) -> str:
        found = vars(kind)[method]
        getter = found.fget if isinstance(found, property) else found
        source = inspect.getsource(getter)  # type: ignore[arg-type]
        (node,) = ast.parse(textwrap.dedent(source)).body
        if not isinstance(node, ast.FunctionDef):
            raise NotLowered(f"{kind.__name__}.{method}")
        return Body(self, role, kind).function(node, name)
