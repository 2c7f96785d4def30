# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Decode attention over native pools: one query token a sequence, its keys cut into pieces.

Visible keys are numbered 0 .. visible-1. Unwindowed, that number is the position. Under a window W
with S sinks there are at most S + W of them: a ring holds exactly those, wherever they wrapped to
(softmax does not care about order), and a full cache needs the gap after the sinks added.
"""

import triton
import triton.language as tl

from ..tile import finish, locate, softmax_step


@triton.jit
def assigned(
    PIECES, START, LENGTHS, i_b, sinks, window, heads, sl_b, sl_h,
    GP: tl.constexpr, PAGED: tl.constexpr, WINDOW: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """What this program works on: kv head, row of its output and query heads of the group [GP];
    the sequence's first slot, its visible keys, those that a window skips after its sinks, and the
    piece's interval."""
    blocks = tl.cdiv(heads, GP)  # of GP query heads
    i_h = (tl.program_id(1) // blocks).to(tl.int64)
    o_g = tl.program_id(1) % blocks * GP + tl.arange(0, GP)
    p_piece = PIECES + tl.program_id(0) * 4
    i_s, pieces, i_row = tl.load(p_piece + 1), tl.load(p_piece + 2), tl.load(p_piece + 3)
    length = tl.load(LENGTHS + i_b * sl_b + i_h * sl_h)
    visible = length
    if WINDOW != "none":
        visible = tl.minimum(length, sinks + window)
    span = tl.cdiv(tl.cdiv(visible, BN), pieces) * BN
    first = i_s * span
    start = tl.zeros([], tl.int64)
    if not PAGED:
        start += tl.load(START + i_b)
    last = tl.minimum(first + span, visible)
    return i_h, i_row.to(tl.int64), o_g, start, visible, length - visible, first, last


# What differs between steps must not be part of a kernel's name: its values aren't looked at.
FREE = ["heads", "sinks", "window", "st_b", "st_h", "sl_b", "sl_h", "se_r", "se_h"]


@triton.jit(do_not_specialize=FREE)
def decode_kernel(
    Q, K, V, PIECES, TABLE, START, LENGTHS, OUT, LSE, qk_scale, sinks, window, heads,
    sq_b, sq_h, sc_p, sc_h, sc_t, st_b, st_h, sl_b, sl_h, so_r, so_h, se_r, se_h,
    GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    PAGED: tl.constexpr, PAGE: tl.constexpr, WINDOW: tl.constexpr,
    BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    i_b = tl.load(PIECES + tl.program_id(0) * 4).to(tl.int64)
    if i_b < 0:
        return
    i_h, i_row, o_g, start, visible, skipped, first, last = assigned(
        PIECES, START, LENGTHS, i_b, sinks, window, heads, sl_b, sl_h, GP, PAGED, WINDOW, BN
    )
    WHOLE: tl.constexpr = PAGE % BN == 0 and WINDOW != "full"

    o_d = tl.arange(0, DP)
    m_g = o_g < heads
    m_d = o_d < D
    o_h = i_h * heads + o_g
    m_q = m_g[:, None] & m_d[None, :]
    p_q = Q + i_b * sq_b + o_h[:, None] * sq_h + o_d[None, :]
    b_q = tl.load(p_q, mask=m_q, other=0.0)  # [GP, DP]
    DTYPE: tl.constexpr = b_q.dtype

    b_scale = tl.full([GP], 1.0, tl.float32) * qk_scale
    b_m = tl.full([GP], float("-inf"), tl.float32)
    b_l = tl.zeros([GP], tl.float32)
    b_o = tl.zeros([GP, DP], tl.float32)
    o_table = i_b * st_b + i_h * st_h
    for n0 in tl.range(first, last, BN, num_stages=STAGES):
        o_n = n0 + tl.arange(0, BN)
        m_n = o_n < visible
        if WINDOW == "full":
            o_n = tl.where(o_n < sinks, o_n, o_n + skipped)
        i_page, o_slot = locate(TABLE, o_table, start, n0, o_n, m_n, PAGED, PAGE, WHOLE)
        o_row = i_page * sc_p + i_h * sc_h + o_slot * sc_t  # [BN]
        o_kv = o_row[:, None] + o_d[None, :]  # [BN, DP]
        # Masked lanes read 0: an unwritten tail may hold NaN, and 0 * NaN is NaN.
        m_kv = m_n[:, None] & m_d[None, :]
        b_k = tl.load(K + o_kv, mask=m_kv, other=0.0).to(DTYPE)
        b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")  # [GP, BN]
        b_s = tl.where(m_n[None, :], b_s, float("-inf"))
        b_m, b_l, b_p, b_alpha = softmax_step(b_s, b_m, b_l, b_scale)
        b_v = tl.load(V + o_kv, mask=m_kv, other=0.0).to(DTYPE)
        b_o = tl.dot(b_p.to(DTYPE), b_v, b_o * b_alpha[:, None], input_precision="ieee")

    b_div, b_lse = finish(b_m, b_l, b_scale)
    o_o = i_row * so_r + o_h[:, None] * so_h + o_d[None, :]
    tl.store(OUT + o_o, (b_o / b_div[:, None]).to(OUT.dtype.element_ty), mask=m_q)
    tl.store(LSE + i_row * se_r + o_h * se_h, b_lse, mask=m_g)


@triton.jit(do_not_specialize=["sm_r", "sm_h", "se_b", "se_h"])
def combine_kernel(
    PART, PART_LSE, ROWS, OUT, LSE, sp_r, sp_h, sm_r, sm_h, so_b, so_h, se_b, se_h,
    D: tl.constexpr, DP: tl.constexpr, MOST: tl.constexpr, SB: tl.constexpr,
):  # fmt: skip
    """Weighs the outputs of a sequence's pieces, SB at a time, by their share of the total."""
    i_b, i_h = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    first, pieces = tl.load(ROWS + i_b * 2).to(tl.int64), tl.load(ROWS + i_b * 2 + 1)
    PART_LSE += first * sm_r + i_h * sm_h
    PART += first * sp_r + i_h * sp_h
    o_s = tl.arange(0, MOST)
    b_lse = tl.load(PART_LSE + o_s * sm_r, mask=o_s < pieces, other=float("-inf"))  # [MOST]
    peak = tl.max(b_lse, 0)
    peak = tl.where(peak == float("-inf"), 0.0, peak)
    total = tl.sum(tl.exp2(b_lse - peak), 0)
    div = tl.where(total == 0.0, 1.0, total)
    o_d = tl.arange(0, DP)
    b_o = tl.zeros([DP], tl.float32)
    for s0 in range(0, pieces, SB):
        o_p = s0 + tl.arange(0, SB)
        m_p = o_p < pieces
        b_w = tl.exp2(tl.load(PART_LSE + o_p * sm_r, mask=m_p, other=float("-inf")) - peak)
        p_part = PART + o_p[:, None] * sp_r + o_d[None, :]
        b_part = tl.load(p_part, mask=m_p[:, None] & (o_d < D)[None, :], other=0.0)  # [SB, DP]
        b_o += tl.sum(b_part * b_w[:, None], 0)
    b_o /= div
    tl.store(OUT + i_b * so_b + i_h * so_h + o_d, b_o.to(OUT.dtype.element_ty), mask=o_d < D)
    lse = tl.where(total == 0.0, float("-inf"), peak + tl.log2(div))
    tl.store(LSE + i_b * se_b + i_h * se_h, lse)
