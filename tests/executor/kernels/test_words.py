# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""What a GPU does to packed words, by the text of its instructions, against what codes stand for.

The interpreter has no inline PTX. Each instruction here does what the PTX ISA says of it, on
numpy's 32-bit integers.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from executor.kernels.tile import WORDS, unpack

Words = NDArray[np.uint32]


def lop3(a: Words, b: Words, c: Words, table: int) -> Words:
    """Bit a·4 + b·2 + c of the table, for each bit."""
    out = np.zeros_like(a)
    for i in range(8):
        if table >> i & 1:
            out |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return out


def prmt(a: Words, b: Words, selector: int) -> Words:
    taken = [(b if n >> 2 & 1 else a) >> (8 * (n & 3)) & 0xFF for n in nibbles(selector)]
    return np.bitwise_or.reduce([byte << np.uint32(8 * i) for i, byte in enumerate(taken)])


def nibbles(selector: int) -> list[int]:
    return [selector >> 4 * i & 7 for i in range(4)]


def from_e4m3(pair: Words) -> Words:
    codes = np.stack([pair & 0xFF, pair >> 8 & 0xFF], -1).astype(np.uint8)
    halves = torch.from_numpy(codes).view(torch.float8_e4m3fn).to(torch.float16)
    return halves.view(torch.int32).numpy().view(np.uint32)[:, 0]


def executed(ptx: str, word: Words) -> Words:
    """Register $0 after the instructions, $1 being the word."""
    registers: dict[str, Any] = {"$1": word}

    def value(name: str) -> Any:
        return registers[name] if name in registers else np.full_like(word, int(name, 0))

    for line in filter(None, (part.strip() for part in ptx.strip("{} ").split(";"))):
        if line.startswith((".reg", "}")):
            continue
        operation, *names = re.split(r"[ ,{}]+", line)
        target, given = names[0], names[1:]
        if operation == "mov.b32":  # into two halves
            half = value(names[2])
            registers[names[0]], registers[names[1]] = half & 0xFFFF, half >> 16
        elif operation == "and.b32":
            registers[target] = value(given[0]) & value(given[1])
        elif operation == "add.u32":
            registers[target] = value(given[0]) + value(given[1])
        elif operation == "shr.u32":
            registers[target] = value(given[0]) >> np.uint32(given[1])
        elif operation == "shl.b32":
            registers[target] = value(given[0]) << np.uint32(given[1])
        elif operation == "lop3.b32":
            registers[target] = lop3(*map(value, given[:3]), int(given[3], 0))
        elif operation == "prmt.b32":
            registers[target] = prmt(value(given[0]), value(given[1]), int(given[2], 0))
        elif operation == "cvt.rn.f16x2.e4m3x2":
            registers[target] = from_e4m3(value(given[0]))
        else:
            raise AssertionError(f"unknown instruction: {line}")
    result: Words = registers["$0"]
    return result


EVERY = np.arange(2**16, dtype=np.uint32)
OTHER = EVERY[::-1] * 40_503 % 2**16  # beside each word another one, which must not leak into it


def stands_for(kind: str, j: int) -> torch.Tensor:
    """fp16 [65536] that `unpack` promises, from how pools and torch define codes."""
    word = torch.arange(2**16)
    if kind == "int4":
        return (word >> 4 * j & 15).half() * 2.0 ** (-20 if j % 2 else -24)
    codes = (word >> 8 * j & 255).to(torch.uint8)
    if kind == "int8":
        return codes.view(torch.int8).half()
    return codes.view(torch.float8_e4m3fn).half() * (1.0 if kind == "e4m3" else 2.0**-8)


@pytest.mark.parametrize(("kind", "j"), WORDS)
def test_instructions_give_every_word_its_value(kind: str, j: int) -> None:
    out = executed(WORDS[kind, j], EVERY | OTHER << 16)
    expected = stands_for(kind, j)
    for half, words in ((out & 0xFFFF, EVERY), (out >> 16, OTHER)):
        got = torch.from_numpy(half.astype(np.uint16).view(np.int16)).view(torch.float16)
        got = got - 1152.0 if kind == "int8" else got
        want = expected[torch.from_numpy(words.astype(np.int64))]
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)


@pytest.mark.skipif(torch.cuda.is_available(), reason="what is interpreted elsewhere")
@pytest.mark.parametrize(("kind", "j"), [key for key in WORDS if key[0] != "e4m3"])
def test_the_interpreter_gives_every_word_its_value(kind: str, j: int) -> None:
    import triton
    import triton.language as tl

    @triton.jit
    def unpacked(X, OUT, J: tl.constexpr, STORAGE: tl.constexpr):
        at = tl.arange(0, 65536)
        tl.store(OUT + at, unpack(tl.load(X + at), J, STORAGE))

    words = torch.from_numpy(EVERY.astype(np.uint16).view(np.int16))
    out = torch.empty(2**16, dtype=torch.float16)
    unpacked[(1,)](words, out, j, kind)
    torch.testing.assert_close(out, stands_for(kind, j), rtol=0, atol=0, equal_nan=True)
