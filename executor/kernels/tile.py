# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Pieces that several kernels share: addressing, and loading a tile of any storage."""

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def locate(
    TABLE, o_table, start, n0, o_n, m_n, PAGED: tl.constexpr, PAGE: tl.constexpr, WHOLE: tl.constexpr
):
    """Page and slot within it of each key of a tile; ids are int64 before any stride multiplies them.

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
def softmax_step(b_s, b_m, b_l):
    """One step of the online softmax in base 2: new maximum, new sum, weights, rescaling factor."""
    b_new = tl.maximum(b_m, tl.max(b_s, 1))  # [BM]
    # A row that has seen no key yet keeps -inf; -inf - -inf would be NaN.
    b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
    b_alpha = tl.exp2(b_m - b_safe)  # [BM]
    b_p = tl.exp2(b_s - b_safe[:, None])  # [BM, BN]
    return b_new, b_l * b_alpha + tl.sum(b_p, 1), b_p, b_alpha


@triton.jit
def load_rows(
    X,
    SCALE,
    ZERO,
    o_x,  # [BN] element offset of each row
    o_side,  # [BN] offset of each row's scale (int8: the scale, int4: the first group's)
    s_group,
    head_scale,  # fp8: the head's scale
    m_n,
    DTYPE: tl.constexpr,
    D: tl.constexpr,
    DP: tl.constexpr,
    GROUP_SIZE: tl.constexpr,
    STORAGE: tl.constexpr,
):
    """A dequantised tile [BN, DP] of any storage; masked rows are 0 whatever the memory holds."""
    o_d = tl.arange(0, DP)
    m_x = m_n[:, None] & (o_d < D)[None, :]  # [BN, DP]
    if STORAGE == "int4":
        HALF: tl.constexpr = D // 2
        o_byte = tl.where(o_d < HALF, o_d, o_d - HALF)
        b_x = tl.load(X + o_x[:, None] + o_byte[None, :], mask=m_x, other=0).to(tl.int32)
        b_x = (b_x >> tl.where(o_d < HALF, 0, 4)[None, :]) & 15
        p_side = o_side[:, None] + (o_d // GROUP_SIZE * s_group)[None, :]
        b_scale = tl.load(SCALE + p_side, mask=m_x, other=0.0).to(tl.float32)
        b_zero = tl.load(ZERO + p_side, mask=m_x, other=0.0).to(tl.float32)
        b_x = b_x.to(tl.float32) * b_scale + b_zero
    else:
        b_x = tl.load(X + o_x[:, None] + o_d[None, :], mask=m_x, other=0.0)
        if STORAGE == "int8":
            b_scale = tl.load(SCALE + o_side, mask=m_n, other=0.0).to(tl.float32)
            b_x = b_x.to(tl.float32) * b_scale[:, None]
        if STORAGE == "fp8":
            b_x = b_x.to(tl.float32) * head_scale
    return b_x.to(DTYPE)
