# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Pieces that several kernels share: addresses, unpacking codes, a step of the online softmax."""

import triton
import triton.language as tl
from triton import knobs

# PTX of `unpack` for two 16-bit words in one register, which the compiler would take apart; "e4m3"
# is "fp8" where the machine converts it.
WORDS = {
    ("int4", 0): "and.b32 $0, $1, 0x000F000F;",
    ("int4", 1): "and.b32 $0, $1, 0x00F000F0;",
    ("int4", 2): "{ .reg .b32 t; shr.u32 t, $1, 8; and.b32 $0, t, 0x000F000F; }",
    ("int4", 3): "{ .reg .b32 t; shr.u32 t, $1, 8; and.b32 $0, t, 0x00F000F0; }",
    # (word & 0xFF) ^ 0x6480 in each half.
    ("int8", 0): "lop3.b32 $0, $1, 0x00FF00FF, 0x64806480, 0x6A;",
    ("int8", 1): "{ .reg .b32 t; shr.u32 t, $1, 8; lop3.b32 $0, t, 0x00FF00FF, 0x64806480, 0x6A; }",
    # e4m3 is fp16 with the top exponent bit and seven mantissa bits missing. NaN, all ones but the
    # sign, carries into that bit: then fp16's exponent is all ones.
    ("fp8", 0): "{ .reg .b32 s, t, u; shl.b32 s, $1, 8; shr.u32 t, s, 1; "
    "and.b32 t, t, 0x3F803F80; lop3.b32 t, s, 0x80008000, t, 0xEA; add.u32 u, t, 0x00800080; "
    "lop3.b32 $0, u, 0x40004000, t, 0xEA; }",
    ("fp8", 1): "{ .reg .b32 t, u; shr.u32 t, $1, 1; "
    "and.b32 t, t, 0x3F803F80; lop3.b32 t, $1, 0x80008000, t, 0xEA; add.u32 u, t, 0x00800080; "
    "lop3.b32 $0, u, 0x40004000, t, 0xEA; }",
    # One byte of each half, to the instruction that sm_89 brought.
    ("e4m3", 0): "{ .reg .b32 t; .reg .b16 x, y; prmt.b32 t, $1, 0, 0x4420; mov.b32 {x, y}, t; "
    "cvt.rn.f16x2.e4m3x2 $0, x; }",
    ("e4m3", 1): "{ .reg .b32 t; .reg .b16 x, y; prmt.b32 t, $1, 0, 0x4431; mov.b32 {x, y}, t; "
    "cvt.rn.f16x2.e4m3x2 $0, x; }",
}
INTERPRETED = tl.constexpr(knobs.runtime.interpret)


@triton.constexpr_function
def _ptx(storage, j):
    return WORDS[storage, j]


@triton.constexpr_function
def converts_e4m3():
    """Whether the machine converts e4m3 itself; elsewhere ``unpack`` gives it 2^8 too small."""
    return not knobs.runtime.interpret and tl.target_info.cuda_capability_geq(8, 9)


@triton.jit
def locate(
    TABLE, o_table, start, n0, o_n, m_n,
    PAGED: tl.constexpr, PAGE: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Page and slot within it of each key of a tile, int64 before any stride multiplies them.

    WHOLE: the tile starts at n0 and never crosses a page, so one scalar load finds its page.
    """
    if PAGED:
        if WHOLE:
            i_page = tl.load(TABLE + o_table + n0 // PAGE).to(tl.int64)
            o_slot = (n0 % PAGE + (o_n - n0)).to(tl.int64)  # [BN]
        else:
            i_page = tl.load(TABLE + o_table + o_n // PAGE, mask=m_n, other=0).to(tl.int64)  # [BN]
            o_slot = (o_n % PAGE).to(tl.int64)  # [BN]
    else:
        i_page = tl.zeros([], tl.int64)
        o_slot = start + o_n  # [BN], start is int64
    return i_page, o_slot


@triton.jit
def softmax_step(b_s, b_m, b_l, b_scale):
    """One step of the online softmax in base 2: new maximum, new sum, weights, rescaling factor.

    Scores and maxima are before the scale of their row [BM], above 0, which joins each exponent's
    subtraction in one instruction.
    """
    b_new = tl.maximum(b_m, tl.max(b_s, 1))  # [BM]
    # A row that has seen no key yet keeps -inf; -inf - -inf would be NaN.
    b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
    b_alpha = tl.exp2((b_m - b_safe) * b_scale)  # [BM]
    b_p = tl.exp2(b_s * b_scale[:, None] - (b_safe * b_scale)[:, None])  # [BM, BN]
    return b_new, b_l * b_alpha + tl.sum(b_p, 1), b_p, b_alpha


@triton.jit
def finish(b_m, b_l, scale):
    """Divisor and base-2 log-sum-exp of each row; rows without keys give 0 and -inf, NaN stays."""
    b_div = tl.where(b_l == 0.0, 1.0, b_l)
    return b_div, tl.where(b_l == 0.0, float("-inf"), b_m * scale + tl.log2(b_div))


@triton.jit
def as_half(b_x):
    """The fp16 value whose bits are the low 16 of each element."""
    return b_x.to(tl.int16).to(tl.float16, bitcast=True)


@triton.jit
def _in_words(b_w, J: tl.constexpr, STORAGE: tl.constexpr):
    """Both halves of 32 bits at once."""
    PTX: tl.constexpr = _ptx(STORAGE, J)
    return tl.inline_asm_elementwise(PTX, "=r,r", [b_w], tl.float16, is_pure=True, pack=2)


@triton.jit
def unpack(b_w, J: tl.constexpr, STORAGE: tl.constexpr):
    """Code j of each 16-bit word as fp16, exactly: int8 as it is; fp8 as it is or, where the
    machine doesn't convert it, 2^8 too small; int4, from 0 to 15, too small by 2^24 where j is
    even and by 2^20 where it is odd: bits of a subnormal, which matrix units take as they are
    (Fasi et al., 2021).
    """
    if not INTERPRETED:
        KIND: tl.constexpr = "e4m3" if STORAGE == "fp8" and converts_e4m3() else STORAGE
        b_x = _in_words(b_w, J, KIND)
    elif STORAGE == "fp8":
        # The arithmetic shift leaves a copy of the sign in the bit that NaN carries into.
        b_w = b_w << 8 if J == 0 else b_w
        b_w = (b_w >> 1) & -0x4080
        b_x = as_half(b_w | ((b_w + 0x80) & 0x4000))
    elif STORAGE == "int4":
        b_w = b_w >> J // 2 * 8
        b_x = as_half(b_w & (0xF if J % 2 == 0 else 0xF0))
    else:
        b_w = b_w >> J * 8
        b_x = as_half((b_w & 0xFF) ^ 0x6480)
    if STORAGE == "int8":
        # 0x6400 is 1024 in fp16, whose last mantissa bit is worth 1; 0x80 makes -128 the least.
        b_x -= 1152.0
    return b_x


@triton.jit
def load_rows(
    X, SIDE, o_x, o_side, s_part, head_scale, m_n, DTYPE: tl.constexpr, D: tl.constexpr,
    DP: tl.constexpr, STORAGE: tl.constexpr,
):  # fmt: skip
    """A dequantised tile [BN, DP] of any storage; masked rows are 0 whatever the memory holds.

    o_x and o_side [BN] point at each row's first code and scale. Codes are read one by one: fit
    for kernels that use a tile often, too slow for decoding.
    """
    o_d = tl.arange(0, DP)
    m_x = m_n[:, None] & (o_d < D)[None, :]  # [BN, DP]
    if STORAGE == "int4":
        QUARTER: tl.constexpr = D // 4
        o_part = o_d // QUARTER
        o_byte = (o_d % QUARTER) * 2 + o_part // 2
        b_x = tl.load(X + o_x[:, None] + o_byte[None, :], mask=m_x, other=0).to(tl.int32)
        b_x = (b_x >> (o_part % 2 * 4)[None, :]) & 15
        p_side = SIDE + o_side[:, None] + (o_part * s_part)[None, :]
        b_scale = tl.load(p_side, mask=m_x, other=0.0).to(tl.float32)
        b_zero = tl.load(p_side + 1, mask=m_x, other=0.0).to(tl.float32)
        return (b_x.to(tl.float32) * b_scale + b_zero).to(DTYPE)
    if STORAGE == "native":
        return tl.load(X + o_x[:, None] + o_d[None, :], mask=m_x, other=0.0).to(DTYPE)
    b_x = tl.load(X + o_x[:, None] + o_d[None, :], mask=m_x, other=0)
    if STORAGE == "int8":
        b_scale = tl.load(SIDE + o_side, mask=m_n, other=0.0).to(tl.float32)
        return (b_x.to(tl.float32) * b_scale[:, None]).to(DTYPE)
    b_x = unpack(b_x.to(tl.int16), 0, "fp8").to(tl.float32)
    if not converts_e4m3():
        b_x *= 256.0
    return (b_x * head_scale).to(DTYPE)
