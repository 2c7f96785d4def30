"""The rules of `lower` for expressions: what each becomes in a method's text."""

import ast
from typing import Any, Protocol

from sim.run.compiled.kinds import (
    BY_REQUEST,
    CLOCKS,
    COPIES,
    GIVEN,
    HEAPS,
    INTS,
    ITEMS,
    LISTS,
    LOCALS,
    OWN,
    PAIRS,
    PARTS,
    REQUEST,
    RETURNED,
    ROLES,
    code,
)


class NotLowered(Exception):
    """Source text that no rule covers."""


class Wanted(Protocol):
    """What rules ask of a lowering: other functions, and room for lists."""

    lists: set[tuple[str, str]]
    scratch: set[str]

    def need(self, role: str, method: str, after: type | None = None) -> str:
        """The name of a role's method, or of the next one behind a class."""
        ...


class Expressions(ast.NodeTransformer):
    """Those of one method."""

    def __init__(self, whole: Wanted, role: str, kind: type) -> None:
        self._whole = whole
        self._role = role
        self._kind = kind
        self._locals = LOCALS.get(role, {})
        self._loops = 0

    # -- what a name or an attribute stands for ----------------------------------------------

    def _role_of(self, node: ast.expr) -> str | None:
        known = ROLES[self._role]
        if isinstance(node, ast.Name):
            return known.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._role_of(node.value)
            return ROLES[owner].get(node.attr) if owner else None
        return None

    def _list_of(self, node: ast.expr) -> tuple[str, ast.expr] | None:
        """Its kind and where it begins, if it is a list."""
        if isinstance(node, ast.Name) and node.id in self._locals:
            return self._locals[node.id], node
        if isinstance(node, ast.Attribute):
            if node.attr == "chunks":
                self._whole.scratch.add("chunks")
                return "chunks", expr("S[t_chunks]")
            owner = self._role_of(node.value)
            if owner is None:
                return None
            key = owner, node.attr
            for names in (LISTS, HEAPS, INTS, PAIRS, COPIES):
                if key in names:
                    self._whole.lists.add(key)
                    return names[key], expr(f"S[{owner}_{node.attr}]")
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            answered = self._role_of(node.func.value), node.func.attr
            if answered in RETURNED:
                return RETURNED[answered], self.visit(node)
            return self._list_of(node.func.value) if node.func.attr == "values" else None
        return None

    def _part_of(self, node: ast.expr) -> str | None:
        """How the fields begin of what others keep by a request's number."""
        if isinstance(node, ast.Name):
            return PARTS.get(node.id)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            owner = self._role_of(node.value.value)
            return BY_REQUEST.get((owner, node.value.attr)) if owner else None
        return None

    def _clock_of(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute) and (owner := self._role_of(node.value)):
            return f"{owner}_{node.attr}" if (owner, node.attr) in CLOCKS else None
        return None

    # -- expressions -------------------------------------------------------------------------

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if found := self._list_of(node):
            return found[1]
        if clock := self._clock_of(node):
            pair = f"(S[{clock}_s], S[{clock}_a])"
            return store(pair) if isinstance(node.ctx, ast.Store) else expr(pair)
        owner = self._role_of(node.value)
        if owner:
            made = expr(f"S[{owner}_{node.attr}]")
            made.ctx = node.ctx
            return made
        if part := self._part_of(node.value):
            return expr(f"S[request_{part}_{node.attr} + WIDTH * {self._text(node.value)}]")
        if isinstance(node.value, ast.Name):
            name = node.value.id
            if name in ITEMS:
                return expr(f"S[{name} + {ITEMS[name].index(node.attr)}]")
            if node.attr == "index":
                return ast.Name(name, node.ctx)
            if node.attr in REQUEST or node.attr in OWN:
                made = expr(f"S[request_{node.attr} + WIDTH * {name}]")
                made.ctx = node.ctx
                return made
            if self._role != "request" and isinstance(node.ctx, ast.Load):
                return expr(f"{self._whole.need('request', node.attr)}(S, {name})")
        raise NotLowered(ast.unparse(node))

    def visit_Constant(self, node: ast.Constant) -> Any:
        if node.value is None:
            return expr("-1")
        return expr(str(code(node.value))) if isinstance(node.value, str) else node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        if self._part_of(node):
            return self.visit(node.slice)
        found = self._list_of(node.value)
        if found is None:
            return self.generic_visit(node)
        kind, place = found
        index = ast.unparse(self.visit(node.slice))
        at = ast.unparse(place)
        if kind in ("heap", "ticks"):
            return expr(f"{kind}_top(S, {at})")
        if kind == "ints":
            made = expr(f"S[{at} + ({index})]")
            made.ctx = node.ctx
            return made
        if kind == "deque" and index == "0":
            return expr(f"deque_first(S, {at})")
        if kind == "list":
            return expr(index)  # of a request's number, which is what stands for it
        raise NotLowered(ast.unparse(node))

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1:
            (operator,), (right,) = node.ops, node.comparators
            if isinstance(operator, ast.In | ast.NotIn) and (found := self._list_of(right)):
                text = f"list_has(S, {ast.unparse(found[1])}, {self._text(node.left)})"
                return expr(text if isinstance(operator, ast.In) else f"not {text}")
            if isinstance(right, ast.Constant) and right.value is None:
                sign = "<" if isinstance(operator, ast.Is) else ">="
                return expr(f"{self._text(node.left)} {sign} 0")
            if isinstance(operator, ast.Is):
                return expr(f"{self._text(node.left)} == {self._text(right)}")
        return self.generic_visit(node)

    def _text(self, node: ast.expr) -> str:
        return ast.unparse(self.visit(node))

    def _truth(self, node: ast.expr) -> ast.expr:
        """The expression where only its truth counts: an empty list is false."""
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self._truth(value) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ast.UnaryOp(node.op, self._truth(node.operand))
        found = self._list_of(node)
        made: ast.expr = expr(f"S[{ast.unparse(found[1])}] > 0") if found else self.visit(node)
        return made

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return self._truth(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        return self._truth(node) if isinstance(node.op, ast.Not) else self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        return ast.IfExp(self._truth(node.test), self.visit(node.body), self.visit(node.orelse))

    def visit_Call(self, node: ast.Call) -> Any:
        arguments = [each for each in node.args if self._role_of(each) is None]
        if isinstance(node.func, ast.Attribute):
            return self._method(node.func, arguments)
        name = ast.unparse(node.func)
        if name == "len":
            found = self._list_of(arguments[0])
            if found is None:
                raise NotLowered(ast.unparse(node))
            return expr(f"S[{ast.unparse(found[1])}]")
        if name == "next":  # next(reversed(self.running.values()))
            found = self._list_of(arguments[0].args[0])  # type: ignore[attr-defined]
            assert found
            return expr(f"list_last(S, {ast.unparse(found[1])})")
        if name == "sum":
            return self._sum(arguments[0])
        if name in ("heappush", "heappop"):
            return self._heap(name.removeprefix("heap"), arguments)
        if name == "min" and self._role == "loop":
            first, *others = [self._text(each) for each in arguments]
            for other in others:
                first = f"earlier({first}, {other})"
            return expr(first)
        if name in GIVEN:
            return expr(f"{name}(S, {', '.join(map(self._text, arguments))})")
        if name in ("min", "max", "int", "divmod", "range", "abs"):
            return self.generic_visit(node)
        raise NotLowered(ast.unparse(node))

    def _heap(self, what: str, arguments: list[ast.expr]) -> Any:
        found = self._list_of(arguments[0])
        if found is None:
            raise NotLowered(ast.unparse(arguments[0]))
        kind, place = found
        entry = [e for a in arguments[1:] for e in (a.elts if isinstance(a, ast.Tuple) else [a])]
        said = ", ".join(["S", ast.unparse(place), *map(self._text, entry)])
        return expr(f"{kind}_{what}({said})")

    def _sum(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            found = self._list_of(node.value)
            if found and node.slice.lower and node.slice.upper:
                low, high = self._text(node.slice.lower), self._text(node.slice.upper)
                return expr(f"ints_sum(S, {ast.unparse(found[1])}, {low}, {high})")
        raise NotLowered(ast.unparse(node))

    def _method(self, node: ast.Attribute, arguments: list[ast.expr]) -> Any:
        if node.attr == "bit_length":
            return expr(f"bit_length({self._text(node.value)})")
        if arguments and self._part_of(ast.Subscript(node.value, arguments[0])):
            return self.visit(arguments[0])  # taken out of what is kept by its number
        found = self._list_of(node.value)
        if node.attr == "append" and found and found[0] in ("chunks", "copies"):
            return self._item_appended(found[1], arguments[0])
        said = ", ".join(["S", *map(self._text, self._told(arguments))])
        owner = node.value
        if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super":
            return expr(f"{self._whole.need(self._role, node.attr, self._kind)}({said})")
        if role := self._role_of(owner):
            return expr(f"{self._whole.need(role, node.attr)}({said})")
        found = self._list_of(owner)
        if found is None:
            raise NotLowered(ast.unparse(node))
        kind, place = found
        at = ast.unparse(place)
        if kind == "copies":
            kind = "list" if node.attr == "clear" else "items"
        if node.attr == "pop" and len(arguments) == 2:
            return expr(f"list_discard(S, {at}, {self._text(arguments[0])})")
        return expr(f"{kind}_{node.attr}(S, {at}{said[1:]})")

    def _item_appended(self, place: ast.expr, item: ast.expr) -> Any:
        """A named tuple, made of its parts or of one tuple of them."""
        assert isinstance(item, ast.Call)
        parts = item.args[0].elts if isinstance(item.args[0], ast.Tuple) else item.args
        said = ", ".join(map(self._text, parts))
        return expr(f"items_append(S, {ast.unparse(place)}, {said})")

    def _told(self, arguments: list[ast.expr]) -> list[ast.expr]:
        """A plan isn't told: it is where everybody looks."""
        return [a for a in arguments if not (isinstance(a, ast.Name) and a.id == "plan")]


def called(node: ast.expr) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def expr(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def store(text: str) -> Any:
    (line,) = ast.parse(f"{text} = 0").body
    assert isinstance(line, ast.Assign)
    return line.targets[0]


def line(text: str) -> Any:
    return ast.parse(text).body[0]
