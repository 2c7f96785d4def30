# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Pieces that several kernels share: addresses, unpacking codes, a step of the online softmax."""

import triton
import triton.language as tl


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
def softmax_step(b_s, b_m, b_l, scale):
    """One step of the online softmax in base 2: new maximum, new sum, weights, rescaling factor.

    Scores and maxima are before the scale, which joins each exponent's subtraction in one
    instruction.
    """
    b_new = tl.maximum(b_m, tl.max(b_s, 1))  # [BM]
    # A row that has seen no key yet keeps -inf; -inf - -inf would be NaN.
    b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
    b_alpha = tl.exp2((b_m - b_safe) * scale)  # [BM]
    b_p = tl.exp2(b_s * scale - (b_safe * scale)[:, None])  # [BM, BN]
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
def unpack(b_w, J: tl.constexpr, STORAGE: tl.constexpr):
    """Code j of each 16-bit word as fp16, exactly; fp8 comes 2^8 too small.

    No conversion instruction: 0x6400 is 1024 in fp16, whose last mantissa bit is worth 1, so OR-ing
    a small integer in adds it. The compiler does these on two values at a time.
    """
    if STORAGE == "int4":
        if J >= 2:
            b_w = b_w >> 8
        if J % 2 == 0:
            return as_half((b_w & 0xF) | 0x6400) - 1024.0
        return as_half((b_w & 0xF0) | 0x6400) * 0.0625 - 64.0
    if STORAGE == "int8":
        if J == 1:
            b_w = b_w >> 8
        return as_half(((b_w & 0xFF) ^ 0x80) | 0x6400) - 1152.0
    # e4m3 is fp16 with the top exponent bit and seven mantissa bits missing. The arithmetic shift
    # leaves a copy of the sign where that exponent bit goes; 0xBF80 clears it.
    if J == 0:
        b_w = b_w << 8
    return as_half((b_w >> 1) & -0x4080)


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
    b_x = unpack(b_x.to(tl.int16), 0, "fp8")
    return (b_x.to(tl.float32) * (256.0 * head_scale)).to(DTYPE)
