"""The rules of `lower` for statements: what each becomes in a method's text."""

import ast
import textwrap
from typing import Any

from sim.run.compiled.kinds import ROLES, UNSEEN
from sim.run.compiled.rules import Expressions, NotLowered, called, expr, line


class Body(Expressions):
    """One method."""

    def function(self, node: ast.FunctionDef, name: str) -> str:
        arguments = [arg.arg for arg in node.args.args if arg.arg not in ROLES[self._role]]
        if self._role == "request":
            arguments = ["self"]
        lines = [*node.body]
        if isinstance(lines[0], ast.Expr) and isinstance(lines[0].value, ast.Constant):
            lines = lines[1:]
        defaults = [ast.unparse(self.visit(value)) for value in node.args.defaults]
        given = arguments[: len(arguments) - len(defaults)]
        given += [f"{a}={d}" for a, d in zip(arguments[len(given) :], defaults, strict=True)]
        body = [new for old in lines for new in self._statement(old)]
        text = "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in body) or "pass"
        return f"def {name}({', '.join(['S', *given])}):\n{textwrap.indent(text, '    ')}\n"

    def _statement(self, node: ast.stmt) -> list[Any]:
        made = self.visit(node)
        if made is None:
            return []
        return made if isinstance(made, list) else [made]

    # -- statements --------------------------------------------------------------------------

    def visit_Assert(self, node: ast.Assert) -> Any:
        return None

    def visit_Expr(self, node: ast.Expr) -> Any:
        if ast.unparse(node.value).startswith(UNSEEN.get(self._role, ())):
            return None
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
        made = [new for node in nodes for new in self._statement(node)]
        return made or ([ast.Pass()] if empty else [])

    def visit_For(self, node: ast.For) -> Any:
        order, inner = node.iter, "range({})"
        if isinstance(order, ast.Call) and called(order) == "reversed":
            order, inner = order.args[0], "range({} - 1, -1, -1)"
        copied = isinstance(order, ast.Call) and called(order) == "tuple"
        found = self._list_of(order.args[0] if copied else order)  # type: ignore[attr-defined]
        body = self._block(node.body)
        if found is None:
            return ast.For(node.target, self.visit(node.iter), body, [])
        kind, place = found
        at = ast.unparse(place)
        begin: list[Any] = []
        self._loops += 1
        if isinstance(place, ast.Call):
            begin = [line(f"at{self._loops} = {at}")]
            at = f"at{self._loops}"
        if copied:
            self._whole.scratch.add("copy")
            begin = [line(f"at{self._loops} = list_copy(S, {at}, S[t_copy])")]
            at = f"at{self._loops}"
        i = f"i{self._loops}"
        width = {"list": 1, "chunks": 4, "copies": 4, "pairs": 2}[kind]
        item = f"{at} + 1 + {width} * {i}"
        if isinstance(node.target, ast.Tuple):
            names = [ast.unparse(each) for each in node.target.elts]
            taken = [f"{n} = S[{item} + {k}]" for k, n in enumerate(names) if n != "_"]
        elif kind in ("chunks", "copies"):
            taken = [f"{ast.unparse(node.target)} = {item}"]
        else:
            taken = [f"{ast.unparse(node.target)} = S[{item}]"]
        times = inner.format(f"S[{at}]")
        made = ast.For(ast.Name(i, ast.Store()), expr(times), [*map(line, taken), *body], [])
        return [*begin, made]

    def visit_Delete(self, node: ast.Delete) -> Any:
        (target,) = node.targets
        assert isinstance(target, ast.Subscript)
        found = self._list_of(target.value)
        if found is None:
            raise NotLowered(ast.unparse(node))
        return line(f"list_remove(S, {ast.unparse(found[1])}, {self._text(target.slice)})")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        name = ast.unparse(node.target)
        if name in self._locals and isinstance(node.value, ast.List):
            self._whole.scratch.add(name)
            return [line(f"{name} = S[t_{name}]"), line(f"S[{name}] = 0")]
        raise NotLowered(ast.unparse(node))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if found := self._list_of(node.target):
            more = self._list_of(node.value)
            assert more
            return line(f"list_extend(S, {ast.unparse(found[1])}, {ast.unparse(more[1])})")
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        target = node.targets[0]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
            kept = [(t, v) for t, v in pairs if not self._is_alias(t, v)]
            if len(kept) < len(pairs):
                assigned = [ast.Assign([t], v, lineno=0) for t, v in kept]
                return [new for each in assigned for new in self._statement(each)]
        elif self._is_alias(target, node.value):
            return None
        if isinstance(target, ast.Subscript) and (part := self._part_of(target)):
            return self._into_request(part, target.slice, node.value)
        found = self._list_of(target.value) if isinstance(target, ast.Subscript) else None
        if found and found[0] == "list":  # self.running[seq.index] = seq
            return line(f"list_append(S, {ast.unparse(found[1])}, {self._text(node.value)})")
        targets = [self.visit(t) for t in node.targets if self._role_of(t) is None]
        value = node.value
        if not targets:  # a part that is made anew
            return ast.Expr(self.visit(value))
        if isinstance(value, ast.Tuple) or not (found := self._list_of(value)):
            return ast.Assign(targets, self.visit(value), lineno=0)
        return ast.Assign(targets, found[1], lineno=0)

    def _into_request(self, part: str, number: ast.expr, value: ast.expr) -> Any:
        """What is kept by its number: fields of it, or itself by another name."""
        if not isinstance(value, ast.Call):
            return None
        at, names = self._text(number), [each.id for each in value.args]  # type: ignore[attr-defined]
        return [line(f"S[request_{part}_{n} + WIDTH * {at}] = {n}") for n in names]

    def _is_alias(self, target: ast.expr, value: ast.expr) -> bool:
        """A shorter name for a part: roles need no names at all."""
        return isinstance(target, ast.Name) and self._role_of(value) is not None
