# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Decode attention over int4 pools. Each byte row is two half heads, so that nibbles never move
between lanes: two dots for the scores, two accumulators for the output."""

import triton
import triton.language as tl

from ..tile import locate, softmax_step
from .kernel import finish, key_range


@triton.jit
def _expand(P, o_side, o_g, s_g, m_side, BN: tl.constexpr, NG: tl.constexpr, GP: tl.constexpr):
    """A scale a group, broadcast to its elements: [BN, NG] -> [BN, NG * GP]."""
    b_x = tl.load(P + o_side[:, None] + (o_g * s_g)[None, :], mask=m_side, other=0.0)
    b_x = tl.broadcast_to(b_x[:, :, None], [BN, NG, GP])
    return tl.reshape(b_x, [BN, NG * GP]).to(tl.float32)


@triton.jit
def _halves(
    X, SCALE, ZERO, o_x, o_side, s_g, m_n, DTYPE: tl.constexpr,
    D: tl.constexpr, HP: tl.constexpr, GROUP_SIZE: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Dequantised halves of the rows of a tile: [BN, HP] twice; masked rows are 0."""
    HALF: tl.constexpr = D // 2
    GP: tl.constexpr = HP if GROUP_SIZE == HALF else GROUP_SIZE
    NG: tl.constexpr = HP // GP
    GROUPS: tl.constexpr = HALF // GROUP_SIZE
    o_d = tl.arange(0, HP)
    o_g = tl.arange(0, NG)
    m_side = m_n[:, None] & (o_g < GROUPS)[None, :]
    p_x = X + o_x[:, None] + o_d[None, :]
    b_x = tl.load(p_x, mask=m_n[:, None] & (o_d < HALF)[None, :], other=0)  # [BN, HP]
    b_low = (b_x & 15).to(tl.float32) * _expand(SCALE, o_side, o_g, s_g, m_side, BN, NG, GP)
    b_low += _expand(ZERO, o_side, o_g, s_g, m_side, BN, NG, GP)
    o_side += GROUPS * s_g
    b_high = (b_x >> 4).to(tl.float32) * _expand(SCALE, o_side, o_g, s_g, m_side, BN, NG, GP)
    b_high += _expand(ZERO, o_side, o_g, s_g, m_side, BN, NG, GP)
    return b_low.to(DTYPE), b_high.to(DTYPE)


@triton.jit
def decode_int4_kernel(
    Q, K, V, KS, VS, KZ, VZ, TABLE, START, LENGTHS, O, LSE, qk_scale, sinks, window,
    sq_b, sq_h, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, ss_g, st_b, st_h, sl_b, sl_h,
    so_b, so_h, so_s, se_b, se_h, se_s,
    HEADS: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, HP: tl.constexpr,
    PAGED: tl.constexpr, PAGE: tl.constexpr, WINDOW: tl.constexpr, GROUP_SIZE: tl.constexpr,
    SPLITS: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    i_b, i_h, i_s = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.program_id(2)
    length = tl.load(LENGTHS + i_b * sl_b + i_h * sl_h)
    visible, skipped, first, last = key_range(length, sinks, window, i_s, WINDOW, SPLITS, BN)
    start = tl.zeros([], tl.int64)
    if not PAGED:
        start += tl.load(START + i_b)

    HALF: tl.constexpr = D // 2
    o_g = tl.arange(0, GP)
    o_d = tl.arange(0, HP)
    m_g = o_g < HEADS
    o_h = i_h * HEADS + o_g
    m_q = m_g[:, None] & (o_d < HALF)[None, :]
    p_q = Q + i_b * sq_b + o_h[:, None] * sq_h + o_d[None, :]
    b_q0 = tl.load(p_q, mask=m_q, other=0.0)  # [GP, HP]
    b_q1 = tl.load(p_q + HALF, mask=m_q, other=0.0)
    DTYPE: tl.constexpr = b_q0.dtype
    WHOLE: tl.constexpr = PAGE % BN == 0 and WINDOW != "full"

    b_m = tl.full([GP], float("-inf"), tl.float32)
    b_l = tl.zeros([GP], tl.float32)
    b_o0 = tl.zeros([GP, HP], tl.float32)
    b_o1 = tl.zeros([GP, HP], tl.float32)
    for n0 in tl.range(first, last, BN, num_stages=STAGES):
        o_n = n0 + tl.arange(0, BN)
        m_n = o_n < visible
        if WINDOW == "full":
            o_n = tl.where(o_n < sinks, o_n, o_n + skipped)
        i_page, o_slot = locate(TABLE, i_b * st_b + i_h * st_h, start, n0, o_n, m_n, PAGED, PAGE, WHOLE)
        # Rows of 40 or 56 bytes (head_dim 80, 112) are not multiples of 16: say what they are.
        o_row = tl.multiple_of(i_page * sc_p + i_h * sc_h + o_slot * sc_t, ALIGN)  # [BN]
        o_side = i_page * ss_p + i_h * ss_h + o_slot * ss_t
        b_k0, b_k1 = _halves(K, KS, KZ, o_row, o_side, ss_g, m_n, DTYPE, D, HP, GROUP_SIZE, BN)
        b_s = tl.dot(b_q0, tl.trans(b_k0), input_precision="ieee")  # [GP, BN]
        b_s = tl.dot(b_q1, tl.trans(b_k1), b_s, input_precision="ieee") * qk_scale
        b_s = tl.where(m_n[None, :], b_s, float("-inf"))
        b_m, b_l, b_p, b_alpha = softmax_step(b_s, b_m, b_l)
        b_p = b_p.to(DTYPE)
        b_v0, b_v1 = _halves(V, VS, VZ, o_row, o_side, ss_g, m_n, DTYPE, D, HP, GROUP_SIZE, BN)
        b_o0 = tl.dot(b_p, b_v0, b_o0 * b_alpha[:, None], input_precision="ieee")
        b_o1 = tl.dot(b_p, b_v1, b_o1 * b_alpha[:, None], input_precision="ieee")

    b_div, b_lse = finish(b_m, b_l)
    o_o = i_b * so_b + o_h[:, None] * so_h + i_s.to(tl.int64) * so_s + o_d[None, :]
    tl.store(O + o_o, (b_o0 / b_div[:, None]).to(O.dtype.element_ty), mask=m_q)
    tl.store(O + o_o + HALF, (b_o1 / b_div[:, None]).to(O.dtype.element_ty), mask=m_q)
    tl.store(LSE + i_b * se_b + o_h * se_h + i_s * se_s, b_lse, mask=m_g)
