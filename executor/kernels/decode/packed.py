# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Decode attention over fp8, int8 and int4 pools, read as 16-bit words of 2 or 4 codes.

Code j of the words of a row makes one tile: 2 half heads (even and odd dimensions) or 4 quarter
heads, each with its own dot and accumulator, so that codes never move between lanes and 16-bit
matrix loads serve them. Issue slots limit these kernels before memory does: what can be done once a
key, or once a head, is not done once a code. Scales join scores and weights; int4's zeros, times
the sum of a quarter query or the weights, are dots of their own.
"""

import triton
import triton.language as tl

from ..tile import as_half, converts_e4m3, finish, locate, softmax_step, unpack
from .kernel import FREE, assigned


@triton.jit
def _scores(b_q, b_w, J: tl.constexpr, STORAGE: tl.constexpr):
    return tl.dot(b_q, tl.trans(unpack(b_w, J, STORAGE)))  # [GP, BN]


@triton.jit
def _scale4(b_side, J: tl.constexpr, o_c, GP: tl.constexpr):
    """The scale of quarter j of each key, in every row [GP, BN]: where scores and weights are."""
    b_one = tl.where((o_c == 2 * J)[None, :], tl.full([GP, 16], 1.0, tl.float16), 0.0)
    return tl.dot(b_one.to(tl.float16), b_side)


@triton.jit
def _query(p_q, m_q):
    return tl.load(p_q, mask=m_q, other=0.0).to(tl.float32)  # [GP, WP]


@triton.jit
def _peak(b_peak, b_q):
    return tl.maximum(b_peak, tl.max(tl.abs(b_q), 1))  # [GP]


@triton.jit
def _zero_term(b_q, J: tl.constexpr, o_c):
    """The sum of quarter j of the query, in the two columns of its zero [GP, 16]."""
    return tl.where((o_c % 8 == 2 * J + 1)[None, :], tl.sum(b_q.to(tl.float32), 1)[:, None], 0.0)


@triton.jit
def _zero_part(b_z, J: tl.constexpr, o_c):
    return tl.sum(tl.where((o_c == 2 * J + 1)[None, :], b_z, 0.0), 1)[:, None]  # [GP, 1]


@triton.jit(do_not_specialize=FREE)
def decode_packed_kernel(
    Q, K, V, SIDE, HALVES, PIECES, TABLE, START, LENGTHS, OUT, LSE, qk_scale, sinks, window, heads,
    sq_b, sq_h, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, st_b, st_h, sl_b, sl_h,
    so_r, so_h, se_r, se_h,
    GP: tl.constexpr, W: tl.constexpr, WP: tl.constexpr,
    PAGED: tl.constexpr, PAGE: tl.constexpr, WINDOW: tl.constexpr, STORAGE: tl.constexpr,
    BN: tl.constexpr, STAGES: tl.constexpr, ALIGN: tl.constexpr,
    SIDE_ALIGN: tl.constexpr,
):  # fmt: skip
    """W words a row. K, V and their strides count 16-bit words; SIDE 32-bit ones, or fp32. HALVES
    is int4's SIDE as fp16."""
    i_b = tl.load(PIECES + tl.program_id(0) * 4).to(tl.int64)
    if i_b < 0:
        return
    i_h, i_row, o_g, start, visible, skipped, first, last = assigned(
        PIECES, START, LENGTHS, i_b, sinks, window, heads, sl_b, sl_h, GP, PAGED, WINDOW, BN
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
        # Sums of quarter queries; what fp16 rounds off comes again in the second eight columns, for
        # a zero may be large beside the codes that it cancels.
        o_c = tl.arange(0, 16)
        b_sum = _zero_term(b_q0, 0, o_c) + _zero_term(b_q1, 1, o_c)
        b_sum += _zero_term(b_q2, 2, o_c) + _zero_term(b_q3, 3, o_c)
        b_sum *= 0.001953125
        b_half = b_sum.to(tl.float16)
        b_qz = tl.where((o_c < 8)[None, :], b_half, (b_sum - b_half.to(tl.float32)).to(tl.float16))
        # Codes come 2^24 or 2^20 too small: 2^15 and 2^11 here, 2^9 in the scale.
        b_q0 *= 32768.0
        b_q1 *= 2048.0
        b_q2 *= 32768.0
        b_q3 *= 2048.0
        b_scale *= 512.0
    FP8_UNIT: tl.constexpr = 1.0 if converts_e4m3() else 256.0
    if STORAGE == "fp8":
        b_scale *= FP8_UNIT * tl.load(SIDE + i_h * ss_h)

    b_m = tl.full([GP], float("-inf"), tl.float32)
    b_l = tl.zeros([GP], tl.float32)
    b_o0, b_o1 = tl.zeros([GP, WP], tl.float32), tl.zeros([GP, WP], tl.float32)
    if FOUR:
        b_o2, b_o3 = tl.zeros([GP, WP], tl.float32), tl.zeros([GP, WP], tl.float32)
        b_oz = tl.zeros([GP, 16], tl.float32)
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
        o_side = i_page * ss_p + i_h * ss_h + o_slot * ss_t  # [BN]
        p_side = SIDE + o_side
        m_kv = m_n[:, None] & m_w[None, :]
        b_w = tl.load(K + o_kv, mask=m_kv, other=0)
        if FOUR:
            o_half = tl.multiple_of(2 * o_side, SIDE_ALIGN)
            p_z = HALVES + o_half[:, None] + (o_c % 8)[None, :]  # [BN, 16]: scales and zeros, twice
            b_z = tl.trans(tl.load(p_z, mask=m_n[:, None], other=0.0))
            b_s = tl.dot(b_qz, b_z)
            b_s += _scores(b_q0, b_w, 0, STORAGE) * _scale4(b_z, 0, o_c, GP)
            b_s += _scores(b_q1, b_w, 1, STORAGE) * _scale4(b_z, 1, o_c, GP)
            b_s += _scores(b_q2, b_w, 2, STORAGE) * _scale4(b_z, 2, o_c, GP)
            b_s += _scores(b_q3, b_w, 3, STORAGE) * _scale4(b_z, 3, o_c, GP)
        else:
            b_s = _scores(b_q0, b_w, 0, STORAGE)
            b_s = tl.dot(b_q1, tl.trans(unpack(b_w, 1, STORAGE)), b_s)
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
        b_m, b_l, b_p, b_alpha = softmax_step(b_s, b_m, b_l, b_scale)
        if STORAGE == "int8":
            # The scale joins the weight, 2^7 up so that fp16 keeps the bits of a small one.
            b_p *= 128.0 * b_vs[None, :]
        b_w = tl.load(V + o_kv, mask=m_kv, other=0)
        b_o0 *= b_alpha[:, None]
        b_o1 *= b_alpha[:, None]
        if FOUR:
            b_o2 *= b_alpha[:, None]
            b_o3 *= b_alpha[:, None]
            b_oz *= b_alpha[:, None]
            b_z = tl.load(p_z + 8, mask=m_n[:, None], other=0.0)
            b_oz = tl.dot(b_p.to(tl.float16), b_z, b_oz)
            b_z = tl.trans(b_z)
            b_p0 = (b_p * _scale4(b_z, 0, o_c, GP)).to(tl.float16)
            b_o0 = tl.dot(b_p0, unpack(b_w, 0, STORAGE), b_o0)
            b_p1 = (b_p * _scale4(b_z, 1, o_c, GP)).to(tl.float16)
            b_o1 = tl.dot(b_p1, unpack(b_w, 1, STORAGE), b_o1)
            b_p2 = (b_p * _scale4(b_z, 2, o_c, GP)).to(tl.float16)
            b_o2 = tl.dot(b_p2, unpack(b_w, 2, STORAGE), b_o2)
            b_p3 = (b_p * _scale4(b_z, 3, o_c, GP)).to(tl.float16)
            b_o3 = tl.dot(b_p3, unpack(b_w, 3, STORAGE), b_o3)
        else:
            b_p = b_p.to(tl.float16)
            b_o0 = tl.dot(b_p, unpack(b_w, 0, STORAGE), b_o0)
            b_o1 = tl.dot(b_p, unpack(b_w, 1, STORAGE), b_o1)

    b_div, b_lse = finish(b_m, b_l, b_scale)
    b_scale = 1.0 / b_div
    if STORAGE == "int8":
        b_scale *= 0.0078125
    if STORAGE == "fp8":
        b_scale *= FP8_UNIT * tl.load(SIDE + i_h * ss_h + ss_t)
    if FOUR:
        b_o0 = b_o0 * 16777216.0 + _zero_part(b_oz, 0, o_c)
        b_o1 = b_o1 * 1048576.0 + _zero_part(b_oz, 1, o_c)
        b_o2 = b_o2 * 16777216.0 + _zero_part(b_oz, 2, o_c)
        b_o3 = b_o3 * 1048576.0 + _zero_part(b_oz, 3, o_c)
    m_g = o_g < heads
    m_q = m_g[:, None] & m_w[None, :]
    DTYPE: tl.constexpr = OUT.dtype.element_ty
    p_o = OUT + i_row * so_r + o_h[:, None] * so_h + o_w[None, :] * STEP
    tl.store(p_o, (b_o0 * b_scale[:, None]).to(DTYPE), mask=m_q)
    tl.store(p_o + PART, (b_o1 * b_scale[:, None]).to(DTYPE), mask=m_q)
    if FOUR:
        tl.store(p_o + 2 * PART, (b_o2 * b_scale[:, None]).to(DTYPE), mask=m_q)
        tl.store(p_o + 3 * PART, (b_o3 * b_scale[:, None]).to(DTYPE), mask=m_q)
    tl.store(LSE + i_row * se_r + o_h * se_h, b_lse, mask=m_g)
