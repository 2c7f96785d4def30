# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""What sparse policies rank by: bounds of a page's scores, and the attention keys have received."""

import triton
import triton.language as tl

from ..tile import load_rows, locate


@triton.jit
def _outwards(b_x, UP: tl.constexpr, DTYPE: tl.constexpr):
    """The marks' nearest bf16 that is not inside: bounds must stay bounds."""
    BF16: tl.constexpr = DTYPE == tl.bfloat16  # noqa: SIM300
    if BF16:
        b_bits = b_x.to(tl.int32, bitcast=True)
        away = b_bits >= 0 if UP else b_bits < 0  # the side on which a larger magnitude is outside
        b_bits = tl.where(away & ((b_bits & 0xFFFF) != 0), b_bits + 0x10000, b_bits)
        b_x = (b_bits & -0x10000).to(tl.float32, bitcast=True)
    return b_x.to(DTYPE)


@triton.jit
def landmark_kernel(
    K, SIDE, PAGES, FILL, MARKS, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, ss_part, sm_p, sm_h, sm_x,
    D: tl.constexpr, DP: tl.constexpr, STORAGE: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Least and greatest value of each dimension over the written keys of a page."""
    i_n, i_h = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_page = tl.load(PAGES + i_n).to(tl.int64)
    fill = tl.load(FILL + i_n)
    o_d = tl.arange(0, DP)
    b_low = tl.full([DP], float("inf"), tl.float32)
    b_high = tl.full([DP], float("-inf"), tl.float32)
    head_scale = 1.0
    if STORAGE == "fp8":
        head_scale = tl.load(SIDE + i_h * ss_h)
    for n0 in range(0, fill, BN):
        o_n = (n0 + tl.arange(0, BN)).to(tl.int64)
        m_n = o_n < fill
        o_x = i_page * sc_p + i_h * sc_h + o_n * sc_t
        o_s = i_page * ss_p + i_h * ss_h + o_n * ss_t
        b_k = load_rows(K, SIDE, o_x, o_s, ss_part, head_scale, m_n, tl.float32, D, DP, STORAGE)
        b_low = tl.minimum(b_low, tl.min(tl.where(m_n[:, None], b_k, float("inf")), 0))
        b_high = tl.maximum(b_high, tl.max(tl.where(m_n[:, None], b_k, float("-inf")), 0))
    p_mark = MARKS + i_page * sm_p + i_h * sm_h + o_d
    tl.store(p_mark, _outwards(b_low, False, MARKS.dtype.element_ty), mask=o_d < D)
    tl.store(p_mark + sm_x, _outwards(b_high, True, MARKS.dtype.element_ty), mask=o_d < D)


@triton.jit(do_not_specialize=["width", "page_size", "st_b", "ss_b", "ss_h"])
def page_score_kernel(
    Q, MARKS, TABLE, LENGTHS, SCORES, width, page_size,
    sq_b, sq_h, sm_p, sm_h, sm_x, st_b, ss_b, ss_h,
    HEADS: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Upper bound of q·k over a page, its greatest among the heads of a group (Quest, eq. 2)."""
    i_b, i_h = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    pages = tl.cdiv(tl.load(LENGTHS + i_b), page_size)
    o_n = tl.program_id(2) * BN + tl.arange(0, BN)
    m_n = o_n < pages
    o_d = tl.arange(0, DP)
    m_d = o_d < D
    # Rows beyond the group repeat its last head: the maximum does not notice.
    o_h = i_h * HEADS + tl.minimum(tl.arange(0, GP), HEADS - 1)
    p_q = Q + i_b * sq_b + o_h[:, None] * sq_h + o_d[None, :]
    b_q = tl.load(p_q, mask=m_d[None, :], other=0.0)  # [GP, DP]
    i_page = tl.load(TABLE + i_b * st_b + o_n, mask=m_n, other=0).to(tl.int64)
    p_mark = MARKS + (i_page * sm_p + i_h * sm_h)[:, None] + o_d[None, :]
    m_x = m_n[:, None] & m_d[None, :]
    b_low = tl.load(p_mark, mask=m_x, other=0.0).to(b_q.dtype)  # [BN, DP]
    b_high = tl.load(p_mark + sm_x, mask=m_x, other=0.0).to(b_q.dtype)
    # A product is largest at the high mark where q is positive and at the low one elsewhere.
    b_up = tl.where(b_q > 0.0, b_q, 0.0)
    b_s = tl.dot(b_up, tl.trans(b_high), input_precision="ieee")
    b_s = tl.dot(b_q - b_up, tl.trans(b_low), b_s, input_precision="ieee")  # [GP, BN]
    b_best = tl.where(m_n, tl.max(b_s, 0), float("-inf"))
    tl.store(SCORES + i_b * ss_b + i_h * ss_h + o_n, b_best, mask=o_n < width)


@triton.jit
def mass_kernel(
    Q, LSE, K, SIDE, TABLE, START, LENGTHS, NEWEST, MASS, qk_scale, sq_b, sq_h, sl_b, sl_h,
    sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, ss_part, st_b, sm_p, sm_h,
    HEADS: tl.constexpr, GP: tl.constexpr, D: tl.constexpr, DP: tl.constexpr,
    PAGED: tl.constexpr, PAGE: tl.constexpr, STORAGE: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Adds each key's softmax weights, summed over its group, to its slot's mass. A program owns
    its keys, so that the sum needs no atomics and never depends on their order."""
    i_b, i_h = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    length = tl.load(LENGTHS + i_b)
    n0 = tl.program_id(0) * BN
    if n0 >= length:
        return
    start = tl.zeros([], tl.int64)
    if not PAGED:
        start += tl.load(START + i_b)
    o_n = n0 + tl.arange(0, BN)
    m_n = o_n < length
    o_g = tl.arange(0, GP)
    o_d = tl.arange(0, DP)
    m_g = o_g < HEADS
    o_h = i_h * HEADS + o_g
    p_q = Q + i_b * sq_b + o_h[:, None] * sq_h + o_d[None, :]
    b_q = tl.load(p_q, mask=m_g[:, None] & (o_d < D)[None, :], other=0.0)  # [GP, DP]
    b_lse = tl.load(LSE + i_b * sl_b + o_h * sl_h, mask=m_g, other=float("inf"))  # [GP]
    WHOLE: tl.constexpr = PAGE % BN == 0
    i_page, o_slot = locate(TABLE, i_b * st_b, start, n0, o_n, m_n, PAGED, PAGE, WHOLE)
    head_scale = 1.0
    if STORAGE == "fp8":
        head_scale = tl.load(SIDE + i_h * ss_h)
    o_x = i_page * sc_p + i_h * sc_h + o_slot * sc_t
    o_s = i_page * ss_p + i_h * ss_h + o_slot * ss_t
    b_k = load_rows(K, SIDE, o_x, o_s, ss_part, head_scale, m_n, b_q.dtype, D, DP, STORAGE)
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee") * qk_scale
    b_p = tl.sum(tl.exp2(b_s - b_lse[:, None]), 0)  # [BN]; rows without a head weigh 2^-inf = 0
    p_mass = MASS + i_page * sm_p + i_h * sm_h + o_slot
    # The newest key has no past: whatever its slot held belongs to an evicted one.
    newest = tl.load(NEWEST + i_b)
    b_mass = tl.load(p_mass, mask=m_n & (o_n != newest), other=0.0)
    tl.store(p_mass, b_mass + b_p, mask=m_n)
