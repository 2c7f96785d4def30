"""The rules of `lower`: what each kind of statement and expression becomes in a method's text."""

import ast
import textwrap
from typing import Any, Protocol

from sim.run.compiled.kinds import (
    CHUNK,
    CLOCKS,
    GIVEN,
    HEAPS,
    INTS,
    LISTS,
    LOCALS,
    PAIRS,
    REQUEST,
    ROLES,
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


class Body(ast.NodeTransformer):
    """One method."""

    def __init__(self, whole: Wanted, role: str, kind: type) -> None:
        self._whole = whole
        self._role = role
        self._kind = kind
        self._locals = LOCALS.get(role, {})
        self._loops = 0

    def function(self, node: ast.FunctionDef, name: str) -> str:
        arguments = [arg.arg for arg in node.args.args if arg.arg not in ROLES[self._role]]
        if self._role == "request":
            arguments = ["self"]
        lines = [*node.body]
        if isinstance(lines[0], ast.Expr) and isinstance(lines[0].value, ast.Constant):
            lines = lines[1:]
        defaults = [ast.unparse(value) for value in node.args.defaults]
        given = arguments[: len(arguments) - len(defaults)]
        given += [f"{a}={d}" for a, d in zip(arguments[len(given) :], defaults, strict=True)]
        body = [line for old in lines for line in self._statement(old)]
        text = "\n".join(ast.unparse(ast.fix_missing_locations(line)) for line in body) or "pass"
        return f"def {name}({', '.join(['S', *given])}):\n{textwrap.indent(text, '    ')}\n"

    def _statement(self, node: ast.stmt) -> list[Any]:
        made = self.visit(node)
        if made is None:
            return []
        return made if isinstance(made, list) else [made]

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
                return "chunks", _expr("S[t_chunks]")
            owner = self._role_of(node.value)
            if owner is None:
                return None
            key = owner, node.attr
            for names in (LISTS, HEAPS, INTS, PAIRS):
                if key in names:
                    self._whole.lists.add(key)
                    return names[key], _expr(f"S[{owner}_{node.attr}]")
            return None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._list_of(node.func.value) if node.func.attr == "values" else None
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
            return _store(pair) if isinstance(node.ctx, ast.Store) else _expr(pair)
        owner = self._role_of(node.value)
        if owner:
            made = _expr(f"S[{owner}_{node.attr}]")
            made.ctx = node.ctx
            return made
        if isinstance(node.value, ast.Name):
            name = node.value.id
            if name == "chunk":
                return _expr(f"S[chunk + {CHUNK.index(node.attr)}]")
            if node.attr == "index":
                return ast.Name(name, node.ctx)
            if node.attr in REQUEST:
                made = _expr(f"S[request_{node.attr} + WIDTH * {name}]")
                made.ctx = node.ctx
                return made
            if self._role != "request" and isinstance(node.ctx, ast.Load):
                return _expr(f"{self._whole.need('request', node.attr)}(S, {name})")
        raise NotLowered(ast.unparse(node))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        found = self._list_of(node.value)
        if found is None:
            return self.generic_visit(node)
        kind, place = found
        index = ast.unparse(self.visit(node.slice))
        at = ast.unparse(place)
        if kind in ("heap", "ticks"):
            return _expr(f"{kind}_top(S, {at})")
        if kind == "ints":
            made = _expr(f"S[{at} + ({index})]")
            made.ctx = node.ctx
            return made
        if kind == "deque" and index == "0":
            return _expr(f"deque_first(S, {at})")
        if kind == "list":
            return _expr(index)  # of a request's number, which is what stands for it
        raise NotLowered(ast.unparse(node))

    def visit_Compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1:
            (operator,), (right,) = node.ops, node.comparators
            if isinstance(operator, ast.In | ast.NotIn) and (found := self._list_of(right)):
                text = f"list_has(S, {ast.unparse(found[1])}, {self._text(node.left)})"
                return _expr(text if isinstance(operator, ast.In) else f"not {text}")
            if isinstance(operator, ast.Is):
                return _expr(f"{self._text(node.left)} == {self._text(right)}")
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
        made: ast.expr = _expr(f"S[{ast.unparse(found[1])}] > 0") if found else self.visit(node)
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
            return _expr(f"S[{ast.unparse(found[1])}]")
        if name == "next":  # next(reversed(self.running.values()))
            found = self._list_of(arguments[0].args[0])  # type: ignore[attr-defined]
            assert found
            return _expr(f"list_last(S, {ast.unparse(found[1])})")
        if name == "sum":
            return self._sum(arguments[0])
        if name in ("heappush", "heappop"):
            return self._heap(name.removeprefix("heap"), arguments)
        if name == "min" and self._role == "loop":
            first, *others = [self._text(each) for each in arguments]
            for other in others:
                first = f"earlier({first}, {other})"
            return _expr(first)
        if name in GIVEN:
            return _expr(f"{name}(S, {', '.join(map(self._text, arguments))})")
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
        return _expr(f"{kind}_{what}({said})")

    def _sum(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            found = self._list_of(node.value)
            if found and node.slice.lower and node.slice.upper:
                low, high = self._text(node.slice.lower), self._text(node.slice.upper)
                return _expr(f"ints_sum(S, {ast.unparse(found[1])}, {low}, {high})")
        raise NotLowered(ast.unparse(node))

    def _method(self, node: ast.Attribute, arguments: list[ast.expr]) -> Any:
        said = ", ".join(["S", *map(self._text, self._told(arguments))])
        owner = node.value
        if isinstance(owner, ast.Call) and ast.unparse(owner.func) == "super":
            return _expr(f"{self._whole.need(self._role, node.attr, self._kind)}({said})")
        if role := self._role_of(owner):
            return _expr(f"{self._whole.need(role, node.attr)}({said})")
        found = self._list_of(owner)
        if found is None:
            raise NotLowered(ast.unparse(node))
        kind, place = found
        at = ast.unparse(place)
        if kind == "chunks" and node.attr == "append":
            (made,) = arguments
            parts = ", ".join(self._text(each) for each in made.args[0].elts)  # type: ignore[attr-defined]
            return _expr(f"chunks_append(S, {at}, {parts})")
        if node.attr == "pop" and len(arguments) == 2:
            return _expr(f"list_discard(S, {at}, {self._text(arguments[0])})")
        return _expr(f"{kind}_{node.attr}(S, {at}{said[1:]})")

    def _told(self, arguments: list[ast.expr]) -> list[ast.expr]:
        """A plan isn't told: it is where everybody looks. A chunk is taken apart later."""
        kept = [a for a in arguments if not (isinstance(a, ast.Name) and a.id == "plan")]
        return [a for a in kept if not (isinstance(a, ast.Call) and _called(a) == "make_chunk")]

    # -- statements --------------------------------------------------------------------------

    def visit_Assert(self, node: ast.Assert) -> Any:
        return None

    def visit_Expr(self, node: ast.Expr) -> Any:
        return ast.Expr(self.visit(node.value))

    def visit_Return(self, node: ast.Return) -> Any:
        if isinstance(node.value, ast.Constant) and node.value.value is None:
            return ast.Return(ast.Constant(False))
        return ast.Return(node.value and self.visit(node.value))

    def visit_If(self, node: ast.If) -> Any:
        if isinstance(node.test, ast.NamedExpr):  # numba 0.68 loses their types
            name, value = node.test.target, self.visit(node.test.value)
            made = ast.If(name, self._block(node.body), self._block(node.orelse, ""))
            return [ast.Assign([ast.Name(name.id, ast.Store())], value, lineno=0), made]
        return ast.If(self._truth(node.test), self._block(node.body), self._block(node.orelse, ""))

    def visit_While(self, node: ast.While) -> Any:
        body = self._block(node.body)
        return ast.While(self._truth(node.test), body, self._block(node.orelse, ""))

    def _block(self, nodes: list[ast.stmt], empty: str = "pass") -> list[Any]:
        made = [line for node in nodes for line in self._statement(node)]
        return made or ([ast.Pass()] if empty else [])

    def visit_For(self, node: ast.For) -> Any:
        order, inner = node.iter, "range({})"
        if isinstance(order, ast.Call) and _called(order) == "reversed":
            order, inner = order.args[0], "range({} - 1, -1, -1)"
        copied = isinstance(order, ast.Call) and _called(order) == "tuple"
        found = self._list_of(order.args[0] if copied else order)  # type: ignore[attr-defined]
        body = self._block(node.body)
        if found is None:
            return ast.For(node.target, self.visit(node.iter), body, [])
        kind, place = found
        at = ast.unparse(place)
        begin: list[Any] = []
        self._loops += 1
        if copied:
            self._whole.scratch.add("copy")
            begin = [_line(f"at{self._loops} = list_copy(S, {at}, S[t_copy])")]
            at = f"at{self._loops}"
        i = f"i{self._loops}"
        width = {"list": 1, "chunks": len(CHUNK), "pairs": 2}[kind]
        item = f"{at} + 1 + {width} * {i}"
        if isinstance(node.target, ast.Tuple):
            names = [ast.unparse(each) for each in node.target.elts]
            taken = [f"{n} = S[{item} + {k}]" for k, n in enumerate(names) if n != "_"]
        elif kind == "chunks":
            taken = [f"{ast.unparse(node.target)} = {item}"]
        else:
            taken = [f"{ast.unparse(node.target)} = S[{item}]"]
        times = inner.format(f"S[{at}]")
        made = ast.For(ast.Name(i, ast.Store()), _expr(times), [*map(_line, taken), *body], [])
        return [*begin, made]

    def visit_Delete(self, node: ast.Delete) -> Any:
        (target,) = node.targets
        assert isinstance(target, ast.Subscript)
        found = self._list_of(target.value)
        if found is None:
            raise NotLowered(ast.unparse(node))
        return _line(f"list_remove(S, {ast.unparse(found[1])}, {self._text(target.slice)})")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        name = ast.unparse(node.target)
        if name in self._locals and isinstance(node.value, ast.List):
            self._whole.scratch.add(name)
            return [_line(f"{name} = S[t_{name}]"), _line(f"S[{name}] = 0")]
        raise NotLowered(ast.unparse(node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if found := self._list_of(node.target):
            more = self._list_of(node.value)
            assert more
            return _line(f"list_extend(S, {ast.unparse(found[1])}, {ast.unparse(more[1])})")
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
            kept = [(t, v) for t, v in pairs if not self._is_alias(t, v)]
            if len(kept) < len(pairs):
                assigned = [ast.Assign([t], v, lineno=0) for t, v in kept]
                return [line for each in assigned for line in self._statement(each)]
        elif self._is_alias(target, node.value):
            return None
        found = self._list_of(target.value) if isinstance(target, ast.Subscript) else None
        if found and found[0] == "list":  # self.running[seq.index] = seq
            return _line(f"list_append(S, {ast.unparse(found[1])}, {self._text(node.value)})")
        targets = [self.visit(t) for t in node.targets if self._role_of(t) is None]
        value = node.value
        if isinstance(value, ast.Tuple) or not (found := self._list_of(value)):
            return ast.Assign(targets, self.visit(value), lineno=0)
        return ast.Assign(targets, found[1], lineno=0)

    def _is_alias(self, target: ast.expr, value: ast.expr) -> bool:
        """A shorter name for a part: roles need no names at all."""
        return isinstance(target, ast.Name) and self._role_of(value) is not None


def _called(node: ast.expr) -> str:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else ""


def _expr(text: str) -> Any:
    return ast.parse(text, mode="eval").body


def _store(text: str) -> Any:
    (line,) = ast.parse(f"{text} = 0").body
    assert isinstance(line, ast.Assign)
    return line.targets[0]


def _line(text: str) -> Any:
    return ast.parse(text).body[0]
