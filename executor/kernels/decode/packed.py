# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Decode attention over fp8, int8 and int4 pools, read as 16-bit words of 2 or 4 codes.

Code j of the words of a row makes one tile: 2 half heads (even and odd dimensions) or 4 quarter
heads, each with its own dot and accumulator, so that codes never move between lanes and 16-bit
matrix loads serve them. Issue slots limit these kernels before memory does, hence the bit tricks.
"""

import triton
import triton.language as tl

from ..tile import as_half, finish, locate, softmax_step, unpack
from .kernel import FREE, assigned


@triton.jit
def _part(b_w, p_side, m_n, J: tl.constexpr, STORAGE: tl.constexpr):
    """Tile j [BN, WP] as fp16. int4 is dequantised; fp8 and int8 leave the scale for later."""
    b_x = unpack(b_w, J, STORAGE)
    if STORAGE == "int4":
        b_side = tl.load(p_side + J, mask=m_n, other=0)  # [BN] scale low, zero high
        b_x = b_x * as_half(b_side & 0xFFFF)[:, None] + as_half(b_side >> 16)[:, None]
    return b_x


@triton.jit
def _scores(b_q, b_s, b_w, p_side, m_n, J: tl.constexpr, STORAGE: tl.constexpr):
    return tl.dot(b_q, tl.trans(_part(b_w, p_side, m_n, J, STORAGE)), b_s)  # [GP, BN]


@triton.jit
def _query(p_q, m_q):
    return tl.load(p_q, mask=m_q, other=0.0).to(tl.float32)  # [GP, WP]


@triton.jit
def _peak(b_peak, b_q):
    return tl.maximum(b_peak, tl.max(tl.abs(b_q), 1))  # [GP]


@triton.jit(do_not_specialize=FREE)
def decode_packed_kernel(
    Q, K, V, SIDE, TABLE, START, LENGTHS, OUT, LSE, qk_scale, sinks, window, heads,
    sq_b, sq_h, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, st_b, st_h, sl_b, sl_h,
    so_b, so_h, so_s, se_b, se_h, se_s,
    GP: tl.constexpr, W: tl.constexpr, WP: tl.constexpr,
    PAGED: tl.constexpr, PAGE: tl.constexpr, WINDOW: tl.constexpr, STORAGE: tl.constexpr,
    BN: tl.constexpr, STAGES: tl.constexpr, ALIGN: tl.constexpr,
):  # fmt: skip
    """W words a row. K, V and their strides count 16-bit words; SIDE 32-bit ones, or fp32."""
    i_b, i_h, i_s, o_g, start, visible, skipped, first, last = assigned(
        START, LENGTHS, sinks, window, heads, sl_b, sl_h, GP, PAGED, WINDOW, BN
    )
    WHOLE: tl.constexpr = PAGE % BN == 0 and WINDOW != "full"
    FOUR: tl.constexpr = STORAGE == "int4"
    FLOATS: tl.constexpr = SIDE.dtype.element_ty == tl.float32
    # Distance between the parts of a head, and between the elements of one.
    PART: tl.constexpr = W if FOUR else 1
    STEP: tl.constexpr = 1 if FOUR else 2

    o_w = tl.arange(0, WP)
    m_w = o_w < W
    # Rows beyond the group repeat its last head: a mask here would be kept, and spilt, for the end.
    o_h = i_h * heads + tl.minimum(o_g, heads - 1)
    m_q = m_w[None, :]
    p_q = Q + i_b * sq_b + o_h[:, None] * sq_h + o_w[None, :] * STEP
    b_q0, b_q1 = _query(p_q, m_q), _query(p_q + PART, m_q)
    b_peak = _peak(_peak(tl.zeros([GP], tl.float32), b_q0), b_q1)
    if FOUR:
        b_q2, b_q3 = _query(p_q + 2 * PART, m_q), _query(p_q + 3 * PART, m_q)
        b_peak = _peak(_peak(b_peak, b_q2), b_q3)
    # Rows of q are brought to 1 before fp16, whose range bf16 exceeds; the scale takes it back.
    b_peak = tl.where(b_peak > 0.0, b_peak, 1.0)
    b_scale = b_peak * qk_scale  # [GP]
    b_q0 = (b_q0 / b_peak[:, None]).to(tl.float16)
    b_q1 = (b_q1 / b_peak[:, None]).to(tl.float16)
    if FOUR:
        b_q2 = (b_q2 / b_peak[:, None]).to(tl.float16)
        b_q3 = (b_q3 / b_peak[:, None]).to(tl.float16)
    if STORAGE == "fp8":
        b_scale *= 256.0 * tl.load(SIDE + i_h * ss_h)

    b_m = tl.full([GP], float("-inf"), tl.float32)
    b_l = tl.zeros([GP], tl.float32)
    b_o0, b_o1 = tl.zeros([GP, WP], tl.float32), tl.zeros([GP, WP], tl.float32)
    if FOUR:
        b_o2, b_o3 = tl.zeros([GP, WP], tl.float32), tl.zeros([GP, WP], tl.float32)
    o_table = i_b * st_b + i_h * st_h
    for n0 in tl.range(first, last, BN, num_stages=STAGES):
        o_n = n0 + tl.arange(0, BN)
        m_n = o_n < visible
        if WINDOW == "full":
            o_n = tl.where(o_n < sinks, o_n, o_n + skipped)
        i_page, o_slot = locate(TABLE, o_table, start, n0, o_n, m_n, PAGED, PAGE, WHOLE)
        # Rows of 40 or 56 bytes are no multiple of 16: state what they are a multiple of.
        o_row = tl.multiple_of(i_page * sc_p + i_h * sc_h + o_slot * sc_t, ALIGN)  # [BN]
        o_kv = o_row[:, None] + o_w[None, :]  # [BN, WP]
        p_side = SIDE + i_page * ss_p + i_h * ss_h + o_slot * ss_t  # [BN]
        m_kv = m_n[:, None] & m_w[None, :]
        b_w = tl.load(K + o_kv, mask=m_kv, other=0)
        b_s = _scores(b_q0, tl.zeros([GP, BN], tl.float32), b_w, p_side, m_n, 0, STORAGE)
        b_s = _scores(b_q1, b_s, b_w, p_side, m_n, 1, STORAGE)
        if FOUR:
            b_s = _scores(b_q2, b_s, b_w, p_side, m_n, 2, STORAGE)
            b_s = _scores(b_q3, b_s, b_w, p_side, m_n, 3, STORAGE)
        b_s *= b_scale[:, None]
        if STORAGE == "int8":
            if FLOATS:
                b_ks = tl.load(p_side, mask=m_n, other=0.0)  # [BN]
                b_vs = tl.load(p_side + 1, mask=m_n, other=0.0)
            else:
                b_side = tl.load(p_side, mask=m_n, other=0)  # scale of K low, of V high
                b_ks = as_half(b_side & 0xFFFF).to(tl.float32)
                b_vs = as_half(b_side >> 16).to(tl.float32)
            b_s *= b_ks[None, :]
        b_s = tl.where(m_n[None, :], b_s, float("-inf"))
        b_m, b_l, b_p, b_alpha = softmax_step(b_s, b_m, b_l, 1.0)
        if STORAGE == "int8":
            # The scale joins the weight, 2^7 up so that fp16 keeps the bits of a small one.
            b_p *= 128.0 * b_vs[None, :]
        b_p = b_p.to(tl.float16)
        b_w = tl.load(V + o_kv, mask=m_kv, other=0)
        p_side += 4
        b_o0 = tl.dot(b_p, _part(b_w, p_side, m_n, 0, STORAGE), b_o0 * b_alpha[:, None])
        b_o1 = tl.dot(b_p, _part(b_w, p_side, m_n, 1, STORAGE), b_o1 * b_alpha[:, None])
        if FOUR:
            b_o2 = tl.dot(b_p, _part(b_w, p_side, m_n, 2, STORAGE), b_o2 * b_alpha[:, None])
            b_o3 = tl.dot(b_p, _part(b_w, p_side, m_n, 3, STORAGE), b_o3 * b_alpha[:, None])

    b_div, b_lse = finish(b_m, b_l, 1.0)
    b_scale = 1.0 / b_div
    if STORAGE == "int8":
        b_scale *= 0.0078125
    if STORAGE == "fp8":
        b_scale *= 256.0 * tl.load(SIDE + i_h * ss_h + ss_t)
    m_g = o_g < heads
    m_q = m_g[:, None] & m_w[None, :]
    DTYPE: tl.constexpr = OUT.dtype.element_ty
    p_o = OUT + i_b * so_b + o_h[:, None] * so_h + i_s.to(tl.int64) * so_s + o_w[None, :] * STEP
    tl.store(p_o, (b_o0 * b_scale[:, None]).to(DTYPE), mask=m_q)
    tl.store(p_o + PART, (b_o1 * b_scale[:, None]).to(DTYPE), mask=m_q)
    if FOUR:
        tl.store(p_o + 2 * PART, (b_o2 * b_scale[:, None]).to(DTYPE), mask=m_q)
        tl.store(p_o + 3 * PART, (b_o3 * b_scale[:, None]).to(DTYPE), mask=m_q)
    tl.store(LSE + i_b * se_b + o_h * se_h + i_s * se_s, b_lse, mask=m_g)
