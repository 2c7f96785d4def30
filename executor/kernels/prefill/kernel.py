# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Causal attention of new tokens over the cached context and over each other.

New keys come from the layer's own K and V, not from the cache: a ring may overwrite context that
earlier queries of the chunk still see, so storing comes after attending. Their tiles need no table.
"""

import triton
import triton.language as tl

from ..tile import finish, load_rows, locate, softmax_step


@triton.jit
def _attend(b_q, b_k, b_v, m_s, b_m, b_l, b_o, b_scale, MASKED: tl.constexpr):
    b_s = tl.dot(b_q, tl.trans(b_k), input_precision="ieee")  # [BM, BN]
    if MASKED:
        b_s = tl.where(m_s, b_s, float("-inf"))
    b_m, b_l, b_p, b_alpha = softmax_step(b_s, b_m, b_l, b_scale)
    b_o = tl.dot(b_p.to(b_v.dtype), b_v, b_o * b_alpha[:, None], input_precision="ieee")
    return b_m, b_l, b_o


@triton.jit(
    do_not_specialize=["sinks", "window", "batch", "heads", "st_b", "se_t", "se_h"],
)
def prefill_kernel(
    Q, KNEW, VNEW, K, V, SIDE, TABLE, START, CU, PAST, OUT, LSE, qk_scale, sinks, window, batch,
    heads, sq_t, sq_h, sk_t, sk_h, sv_t, sv_h, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, ss_kv, ss_part,
    st_b, so_t, so_h, se_t, se_h,
    D: tl.constexpr, DP: tl.constexpr, PAGED: tl.constexpr,
    PAGE: tl.constexpr, WINDOW: tl.constexpr, STORAGE: tl.constexpr, CONTEXT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    # Later tiles of a chunk see more keys: they go first, so that no long one ends alone.
    i_b = tl.program_id(0) % batch
    i_m = tl.num_programs(0) // batch - 1 - tl.program_id(0) // batch
    i_q = tl.program_id(1).to(tl.int64)
    i_h = i_q // heads
    first = tl.load(CU + i_b).to(tl.int64)
    count = (tl.load(CU + i_b + 1) - first).to(tl.int32)
    if i_m * BM >= count:
        return
    past = tl.load(PAST + i_b)
    start = tl.zeros([], tl.int64)
    if CONTEXT and not PAGED:
        start += tl.load(START + i_b)

    o_m = i_m * BM + tl.arange(0, BM)
    o_d = tl.arange(0, DP)
    m_m = o_m < count
    m_d = o_d < D
    m_q = m_m[:, None] & m_d[None, :]
    p_q = Q + (first + o_m)[:, None] * sq_t + i_q * sq_h + o_d[None, :]
    b_q = tl.load(p_q, mask=m_q, other=0.0)  # [BM, DP]
    DTYPE: tl.constexpr = b_q.dtype
    o_pos = past + o_m  # [BM] position of each query
    oldest = past + i_m * BM - window + 1  # what the tile's first query still sees, beside sinks
    b_scale = tl.full([BM], 1.0, tl.float32) * qk_scale
    b_m = tl.full([BM], float("-inf"), tl.float32)
    b_l = tl.zeros([BM], tl.float32)
    b_o = tl.zeros([BM, DP], tl.float32)

    if CONTEXT:
        visible = past
        skipped = 0
        if WINDOW == "ring":
            visible = tl.minimum(past, sinks + window)
        if WINDOW == "full":
            skipped = tl.minimum(tl.maximum(oldest - sinks, 0), tl.maximum(past - sinks, 0))
            visible = past - skipped
        k_scale, v_scale = 1.0, 1.0
        if STORAGE == "fp8":
            k_scale, v_scale = tl.load(SIDE + i_h * ss_h), tl.load(SIDE + i_h * ss_h + ss_kv)
        WHOLE: tl.constexpr = PAGE % BN == 0 and WINDOW != "full"
        o_table = i_b.to(tl.int64) * st_b
        whole = 0  # keys in tiles that hide nothing from any query
        # A loop of their own, where registers are left for it: else it spills and is no gain.
        if WINDOW == "none" and STORAGE == "native" and BM * DP <= 8192:
            whole = visible // BN * BN
            for n0 in tl.range(0, whole, BN, num_stages=STAGES):
                o_n = n0 + tl.arange(0, BN)
                m_n = tl.full([BN], 1, tl.int1)
                i_page, o_slot = locate(TABLE, o_table, start, n0, o_n, m_n, PAGED, PAGE, WHOLE)
                o_x = i_page * sc_p + i_h * sc_h + o_slot * sc_t  # [BN]
                o_s = i_page * ss_p + i_h * ss_h + o_slot * ss_t
                b_k = load_rows(K, SIDE, o_x, o_s, ss_part, k_scale, m_n, DTYPE, D, DP, STORAGE)
                o_s += ss_kv
                b_v = load_rows(V, SIDE, o_x, o_s, ss_part, v_scale, m_n, DTYPE, D, DP, STORAGE)
                b_m, b_l, b_o = _attend(b_q, b_k, b_v, True, b_m, b_l, b_o, b_scale, False)
        for n0 in tl.range(whole, visible, BN, num_stages=STAGES):
            o_n = n0 + tl.arange(0, BN)
            m_n = o_n < visible
            o_key = o_n  # [BN] position of each key
            if WINDOW == "full":
                o_n = tl.where(o_n < sinks, o_n, o_n + skipped)
                o_key = o_n
            if WINDOW == "ring":
                # The newest position that was stored in the slot.
                o_key = tl.where(o_n < sinks, o_n, past - 1 - (past - 1 - o_n) % window)
            m_s = m_n[None, :]
            if WINDOW != "none":
                seen = (o_key < sinks)[None, :] | (o_key[None, :] > o_pos[:, None] - window)
                m_s = m_s & seen  # [BM, BN]
            i_page, o_slot = locate(TABLE, o_table, start, n0, o_n, m_n, PAGED, PAGE, WHOLE)
            o_x = i_page * sc_p + i_h * sc_h + o_slot * sc_t  # [BN]
            o_s = i_page * ss_p + i_h * ss_h + o_slot * ss_t
            b_k = load_rows(K, SIDE, o_x, o_s, ss_part, k_scale, m_n, DTYPE, D, DP, STORAGE)
            b_v = load_rows(V, SIDE, o_x, o_s + ss_kv, ss_part, v_scale, m_n, DTYPE, D, DP, STORAGE)
            b_m, b_l, b_o = _attend(b_q, b_k, b_v, m_s, b_m, b_l, b_o, b_scale, True)

    KNEW += first * sk_t + i_h * sk_h
    VNEW += first * sv_t + i_h * sv_h
    end = tl.minimum(i_m * BM + BM, count)
    below = 0
    hidden = 0  # new tokens that a window skips after its sinks
    fixed = tl.maximum(sinks - past, 0)  # sinks among the new tokens
    if WINDOW == "none":
        # Tiles below the diagonal: every query of the block sees every key.
        below = (i_m * BM) // BN * BN
        for n0 in tl.range(0, below, BN, num_stages=STAGES):
            o_n = (n0 + tl.arange(0, BN)).to(tl.int64)
            p_k = KNEW + o_n[:, None] * sk_t + o_d[None, :]
            p_v = VNEW + o_n[:, None] * sv_t + o_d[None, :]
            b_k = tl.load(p_k, mask=m_d[None, :], other=0.0)  # [BN, DP]
            b_v = tl.load(p_v, mask=m_d[None, :], other=0.0)
            b_m, b_l, b_o = _attend(b_q, b_k, b_v, True, b_m, b_l, b_o, b_scale, False)
    else:
        hidden = tl.maximum(oldest - past - fixed, 0)
    for n0 in tl.range(below, end - hidden, BN, num_stages=STAGES):
        o_n = n0 + tl.arange(0, BN)
        if WINDOW != "none":
            o_n = tl.where(o_n < fixed, o_n, o_n + hidden)
        m_n = o_n < end
        m_s = m_n[None, :] & (o_n[None, :] <= o_m[:, None])
        if WINDOW != "none":
            m_s = m_s & ((o_n < fixed)[None, :] | (o_n[None, :] > o_m[:, None] - window))
        o_t = o_n.to(tl.int64)[:, None]
        m_kv = m_n[:, None] & m_d[None, :]
        b_k = tl.load(KNEW + o_t * sk_t + o_d[None, :], mask=m_kv, other=0.0)
        b_v = tl.load(VNEW + o_t * sv_t + o_d[None, :], mask=m_kv, other=0.0)
        b_m, b_l, b_o = _attend(b_q, b_k, b_v, m_s, b_m, b_l, b_o, b_scale, True)

    b_div, b_lse = finish(b_m, b_l, b_scale)
    p_o = OUT + (first + o_m)[:, None] * so_t + i_q * so_h + o_d[None, :]
    tl.store(p_o, (b_o / b_div[:, None]).to(OUT.dtype.element_ty), mask=m_q)
    tl.store(LSE + (first + o_m) * se_t + i_q * se_h, b_lse, mask=m_m)
