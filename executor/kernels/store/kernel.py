# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Writes K and V of new tokens into their slots, quantising on the way."""

import triton
import triton.language as tl


@triton.jit
def _round(b_x):
    """Half up: floor exists everywhere, and the reference does the same."""
    return tl.floor(b_x + 0.5)


@triton.jit
def _store_int8(X, CODE, SCALE, o_x, o_code, o_side, m_t, m_x):
    b_x = tl.load(X + o_x, mask=m_x, other=0.0).to(tl.float32)  # [BT, DP]
    b_scale = tl.max(tl.abs(b_x), 1) / 127.0  # [BT]
    # Codes use the scale as it is stored, not as it was computed.
    b_scale = b_scale.to(SCALE.dtype.element_ty)
    b_div = b_scale.to(tl.float32)
    b_div = tl.where(b_div > 0.0, b_div, 1.0)
    b_code = _round(tl.div_rn(b_x, tl.broadcast_to(b_div[:, None], b_x.shape)))
    b_code = tl.minimum(tl.maximum(b_code, -127.0), 127.0)
    tl.store(CODE + o_code, b_code.to(tl.int8), mask=m_x)
    tl.store(SCALE + o_side, b_scale, mask=m_t)


@triton.jit
def _codes_int4(
    X, SCALE, ZERO, o_x, p_side, m_x, m_side,
    BT: tl.constexpr, NG: tl.constexpr, GP: tl.constexpr,
):  # fmt: skip
    """4-bit codes of half a head [BT, NG * GP] as int32; stores the half's scales and zeros."""
    b_x = tl.load(X + o_x, mask=m_x, other=0.0).to(tl.float32)
    b_x = tl.reshape(b_x, [BT, NG, GP])
    m_g = tl.reshape(m_x, [BT, NG, GP])
    b_low = tl.min(tl.where(m_g, b_x, float("inf")), 2)  # [BT, NG]
    b_high = tl.max(tl.where(m_g, b_x, float("-inf")), 2)
    b_low = tl.where(m_side, b_low, 0.0)
    b_high = tl.where(m_side, b_high, 0.0)
    b_zero = b_low.to(ZERO.dtype.element_ty)
    b_scale = ((b_high - b_low) / 15.0).to(SCALE.dtype.element_ty)
    tl.store(ZERO + p_side, b_zero, mask=m_side)
    tl.store(SCALE + p_side, b_scale, mask=m_side)
    b_div = b_scale.to(tl.float32)
    b_div = tl.where(b_div > 0.0, b_div, 1.0)
    b_x = b_x - b_zero.to(tl.float32)[:, :, None]
    b_code = _round(tl.div_rn(b_x, tl.broadcast_to(b_div[:, :, None], b_x.shape)))
    b_code = tl.minimum(tl.maximum(b_code, 0.0), 15.0)
    return tl.reshape(b_code.to(tl.int32), [BT, NG * GP])


@triton.jit
def store_kernel(
    KNEW, VNEW, K, V, KS, VS, KZ, VZ, SLOTS, tokens, page_size,
    sn_t, sn_h, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, ss_g,
    D: tl.constexpr, DP: tl.constexpr, GROUP_SIZE: tl.constexpr, STORAGE: tl.constexpr,
    BT: tl.constexpr,
):  # fmt: skip
    i_t, i_h = tl.program_id(0), tl.program_id(1)
    o_t = i_t * BT + tl.arange(0, BT)
    i_slot = tl.load(SLOTS + o_t, mask=o_t < tokens, other=-1).to(tl.int64)  # [BT]
    m_t = i_slot >= 0
    i_page = i_slot // page_size
    o_in = i_slot % page_size
    o_new = o_t.to(tl.int64) * sn_t + i_h * sn_h  # [BT]
    o_row = i_page * sc_p + i_h * sc_h + o_in * sc_t
    o_side = i_page * ss_p + i_h * ss_h + o_in * ss_t

    o_d = tl.arange(0, DP)
    o_x = o_new[:, None] + o_d[None, :]  # [BT, DP]
    o_c = o_row[:, None] + o_d[None, :]
    if STORAGE == "int4":
        HALF: tl.constexpr = D // 2  # DP covers half a head here
        GP: tl.constexpr = DP if GROUP_SIZE == HALF else GROUP_SIZE
        NG: tl.constexpr = DP // GP
        m_x = m_t[:, None] & (o_d < HALF)[None, :]
        o_g = tl.arange(0, NG)
        m_side = m_t[:, None] & (o_g < HALF // GROUP_SIZE)[None, :]
        p_low = o_side[:, None] + (o_g * ss_g)[None, :]  # [BT, NG]
        p_high = p_low + HALF // GROUP_SIZE * ss_g
        b_k = _codes_int4(KNEW, KS, KZ, o_x, p_low, m_x, m_side, BT, NG, GP)
        b_k |= _codes_int4(KNEW, KS, KZ, o_x + HALF, p_high, m_x, m_side, BT, NG, GP) << 4
        tl.store(K + o_c, b_k.to(tl.uint8), mask=m_x)
        b_v = _codes_int4(VNEW, VS, VZ, o_x, p_low, m_x, m_side, BT, NG, GP)
        b_v |= _codes_int4(VNEW, VS, VZ, o_x + HALF, p_high, m_x, m_side, BT, NG, GP) << 4
        tl.store(V + o_c, b_v.to(tl.uint8), mask=m_x)
    else:
        m_x = m_t[:, None] & (o_d < D)[None, :]
        if STORAGE == "int8":
            _store_int8(KNEW, K, KS, o_x, o_c, o_side, m_t, m_x)
            _store_int8(VNEW, V, VS, o_x, o_c, o_side, m_t, m_x)
        else:
            b_k = tl.load(KNEW + o_x, mask=m_x, other=0.0)
            b_v = tl.load(VNEW + o_x, mask=m_x, other=0.0)
            if STORAGE == "fp8":
                # Saturate: e4m3 has no infinity, an overflow would be stored as NaN.
                b_ks = tl.zeros([BT, DP], tl.float32) + tl.load(KS + i_h * ss_h)
                b_vs = tl.zeros([BT, DP], tl.float32) + tl.load(VS + i_h * ss_h)
                b_k = tl.div_rn(b_k.to(tl.float32), b_ks)
                b_v = tl.div_rn(b_v.to(tl.float32), b_vs)
                b_k = tl.minimum(tl.maximum(b_k, -448.0), 448.0)
                b_v = tl.minimum(tl.maximum(b_v, -448.0), 448.0)
            tl.store(K + o_c, b_k.to(K.dtype.element_ty), mask=m_x)
            tl.store(V + o_c, b_v.to(V.dtype.element_ty), mask=m_x)
