"""Triton's interpreter with less book-keeping: each operation computes what it did before.

Most of its time goes into describing types: each value has a block type of its own, whose name is
written out, and a shape in three forms; equal types are compared part by part. Here shapes of equal
sizes are one object, names are written where they are asked for, and where two types are the same
object nothing more is compared.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest


@contextmanager
def quick() -> Iterator[None]:
    """The interpreter of this process as described, until the end of the block."""
    with pytest.MonkeyPatch.context() as patch:
        _names_are_listed_once(patch)
        _types_are_described_once(patch)
        _equal_types_need_no_work(patch)
        yield


def _names_are_listed_once(patch: pytest.MonkeyPatch) -> None:
    """At each call of a function within a kernel it goes through all names of triton.language, to
    put its own in their place. Within a kernel, which has put them there, it is done no more, but
    for modules that know triton.language.core alone: there it is done once and never taken back.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    names: dict[Any, list[str]] = {}
    done: set[str] = set()
    semantic = interpreter.interpreter_semantic

    plain = tl.core.builtin(lambda: None).__code__

    def put(member: Any) -> Callable[..., Any]:
        # Without the check that there is a semantic.
        inner = member.__wrapped__ if member.__code__ is plain else member

        def call(*args: Any, **kwargs: Any) -> Any:
            kwargs["_semantic"] = semantic
            return inner(*args, **kwargs)

        return call

    put_once = cache(put)

    def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
        assert builder is semantic.builder
        if package not in names:
            members = inspect.getmembers(package)
            names[package] = [name for name, member in members if tl.core.is_builtin(member)]
        for name in names[package]:
            member = getattr(package, name)
            if tl.core.is_builtin(member):
                scope.set_attr(package, name, put_once(member))

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        module = self.fn.__module__
        if module not in done:
            done.add(module)
            if not any(value is tl for value in self.fn.__globals__.values()):
                interpreter._patch_lang(self.fn)
        try:
            return self.rewrite()(*args, **kwargs)
        except Exception as error:
            raise interpreter.InterpreterError(repr(error)) from error

    patch.setattr(interpreter, "_patch_builtin", patch_builtin)
    patch.setattr(interpreter.InterpretedFunction, "__call__", call)


def _types_are_described_once(patch: pytest.MonkeyPatch) -> None:
    import triton.language as tl
    from triton.runtime import interpreter

    core = tl.core

    @lru_cache(maxsize=None, typed=True)
    def described(*sizes: int) -> tuple[Any, int, Any, Any]:
        """The shape and the size of a block, and both as its values have them."""
        shape, numel = core.tuple(sizes), core.validate_block_shape(sizes)
        return shape, numel, core.tuple([core.constexpr(n) for n in sizes]), core.constexpr(numel)

    def of_block(self: Any, element: Any, shape: Any) -> None:
        given = shape.values if isinstance(shape, core.tuple) else shape
        sizes = [n if type(n) is int else core._unwrap_if_constexpr(n) for n in given]
        if not sizes:
            raise TypeError("0d block_type is forbidden")
        self.element_ty = element
        self.shape, self.numel, *self.of_values = described(*sizes)

    no_shape = core.tuple([]), core.constexpr(1)

    def of_tensor(self: Any, handle: Any, type: Any) -> None:
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.shape, self.numel = type.of_values if type.is_block() else no_shape

    patch.setattr(core.block_type, "__init__", of_block)
    patch.setattr(
        core.block_type,
        "name",
        property(lambda self: f"<{self.shape}, {self.element_ty}>"),
        raising=False,
    )
    patch.setattr(core.tensor, "__init__", of_tensor)

    of_scalars = cache(interpreter._get_np_dtype)

    def np_dtype(kind: Any) -> Any:
        scalar = kind.element_ty if isinstance(kind, core.block_type) else kind
        return np.dtype(np.uint64) if isinstance(scalar, core.pointer_type) else of_scalars(scalar)

    patch.setattr(interpreter, "_get_np_dtype", np_dtype)


def _equal_types_need_no_work(patch: pytest.MonkeyPatch) -> None:
    """And sums and products of integers are not computed a second time in 64 bits, for an assertion
    on their overflow that the interpreter leaves out.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    assert not interpreter.InterpreterOptions().debug  # as long as this is so, it does
    semantic, dtype = interpreter.TritonSemantic, tl.core.dtype
    equal, cast, broadcast = dtype.__eq__, semantic.cast, semantic.broadcast_impl_value

    def cast_others(self: Any, value: Any, to: Any, *rest: Any) -> Any:
        return value if value.type.scalar is to.scalar else cast(self, value, to, *rest)

    def broadcast_others(self: Any, lhs: Any, rhs: Any) -> Any:
        same = lhs.shape is rhs.shape
        return (lhs, rhs) if same else broadcast(self, lhs, rhs)

    patch.setattr(semantic, "binary_op_sanitize_overflow_impl", lambda *operands: None)
    patch.setattr(dtype, "__eq__", lambda self, other: self is other or equal(self, other))
    patch.setattr(semantic, "cast", cast_others)
    patch.setattr(semantic, "broadcast_impl_value", broadcast_others)
