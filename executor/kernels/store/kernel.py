# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Writes K and V of new tokens into their slots, quantising on the way."""

import triton
import triton.language as tl


@triton.jit
def _share(b_x, PARTS: tl.constexpr, HALF: tl.constexpr):
    """A step of the scale: b_x / PARTS in fp32, divided exactly, or the next fp16 above, so that
    the largest code reaches what it stands for however small the scale."""
    b_step = tl.div_rn(b_x, tl.full(b_x.shape, PARTS, tl.float32))
    if HALF:
        b_half = b_step.to(tl.float16)
        b_bits = b_half.to(tl.int16, bitcast=True)
        b_bits += (b_half.to(tl.float32) < b_step).to(tl.int16)
        b_step = b_bits.to(tl.float16, bitcast=True)
    return b_step


@triton.jit
def _nan_of(b_x, m_x):
    """NaN for rows [BT] that hold one (or infinity), which no maximum shows; else 0."""
    return tl.sum(tl.where(m_x, b_x * 0.0, 0.0), 1)


@triton.jit
def _codes(b_x, b_scale, LOW: tl.constexpr, HIGH: tl.constexpr):
    """Integer codes [BT, N] under the scale [BT] as it is stored, rounded half up, as int32."""
    b_div = b_scale.to(tl.float32)
    b_div = tl.where(b_div > 0.0, b_div, 1.0)
    b_x = tl.div_rn(b_x, tl.broadcast_to(b_div[:, None], b_x.shape))
    return tl.minimum(tl.maximum(tl.floor(b_x + 0.5), LOW), HIGH).to(tl.int32)


@triton.jit
def _e4m3(b_x):
    """e4m3 codes, round to nearest even, saturating; NaN stays NaN. As integers, so that it is the
    same on every GPU: the instruction starts with sm_89."""
    b_bits = b_x.to(tl.int32, bitcast=True)
    b_nan = (b_bits & 0x7FFFFFFF) > 0x7F800000
    b_abs = tl.minimum(tl.abs(b_x), 448.0)
    # 2^-120 moves e4m3's exponents onto fp32's smallest, subnormals onto subnormals.
    b_abs = (b_abs * 7.52316384526264e-37).to(tl.int32, bitcast=True)
    b_code = (b_abs + 0x7FFFF + ((b_abs >> 20) & 1)) >> 20
    return tl.where(b_nan, 0x7F, b_code) | ((b_bits >> 24) & 0x80)


@triton.jit
def _store_int8(X, CODE, p_scale, o_x, o_code, m_t, m_x, LARGEST: tl.constexpr):
    b_x = tl.load(X + o_x, mask=m_x, other=0.0).to(tl.float32)  # [BT, DP]
    HALF: tl.constexpr = p_scale.dtype.element_ty == tl.float16
    b_scale = _share(tl.minimum(tl.max(tl.abs(b_x), 1), LARGEST), 127.0, HALF)  # [BT]
    b_scale = (b_scale.to(tl.float32) + _nan_of(b_x, m_x)).to(p_scale.dtype.element_ty)
    tl.store(p_scale, b_scale, mask=m_t)
    tl.store(CODE + o_code, _codes(b_x, b_scale, -127.0, 127.0).to(tl.int8), mask=m_x)


@triton.jit
def _quarter(X, p_side, o_x, m_t, m_x):
    """4-bit codes of a quarter head [BT, QP]; stores its scale and zero."""
    b_x = tl.load(X + o_x, mask=m_x, other=0.0).to(tl.float32)
    b_low = tl.min(tl.where(m_x, b_x, float("inf")), 1)  # [BT]
    b_high = tl.max(tl.where(m_x, b_x, float("-inf")), 1)
    # Skipped tokens have no elements; their infinities must not meet in a subtraction.
    b_low = tl.where(m_t, b_low, 0.0)
    b_high = tl.where(m_t, b_high, 0.0)
    b_zero = (b_low + _nan_of(b_x, m_x)).to(tl.float16)
    b_scale = _share(b_high - b_low, 15.0, True)
    tl.store(p_side, b_scale, mask=m_t)
    tl.store(p_side + 1, b_zero, mask=m_t)
    return _codes(b_x - b_zero.to(tl.float32)[:, None], b_scale, 0.0, 15.0)


@triton.jit
def _store_int4(X, WORD, p_side, o_x, o_word, m_t, m_x, QUARTER: tl.constexpr):
    b_w = _quarter(X, p_side, o_x, m_t, m_x)
    b_w |= _quarter(X, p_side + 2, o_x + QUARTER, m_t, m_x) << 4
    b_w |= _quarter(X, p_side + 4, o_x + 2 * QUARTER, m_t, m_x) << 8
    b_w |= _quarter(X, p_side + 6, o_x + 3 * QUARTER, m_t, m_x) << 12
    tl.store(WORD + o_word, b_w.to(tl.int16), mask=m_x)


@triton.jit(do_not_specialize=["tokens", "page_size"])
def store_kernel(
    KNEW, VNEW, K, V, SIDE, SLOTS, tokens, page_size,
    sk_t, sk_h, sv_t, sv_h, sc_p, sc_h, sc_t, ss_p, ss_h, ss_t, ss_kv,
    D: tl.constexpr, DP: tl.constexpr, STORAGE: tl.constexpr, BT: tl.constexpr,
    LARGEST: tl.constexpr,
):  # fmt: skip
    """Strides of the cache count its elements: int16 words for int4, else one code each."""
    i_t, i_h = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o_t = i_t * BT + tl.arange(0, BT)
    i_slot = tl.load(SLOTS + o_t, mask=o_t < tokens, other=-1).to(tl.int64)  # [BT]
    m_t = i_slot >= 0
    i_page = i_slot // page_size
    o_in = i_slot % page_size
    o_d = tl.arange(0, DP)
    o_t = o_t.to(tl.int64)
    o_k = (o_t * sk_t + i_h * sk_h)[:, None] + o_d[None, :]  # [BT, DP]
    o_v = (o_t * sv_t + i_h * sv_h)[:, None] + o_d[None, :]
    o_c = (i_page * sc_p + i_h * sc_h + o_in * sc_t)[:, None] + o_d[None, :]
    o_side = i_page * ss_p + i_h * ss_h + o_in * ss_t
    if STORAGE == "int4":
        QUARTER: tl.constexpr = D // 4  # DP covers a quarter here
        m_x = m_t[:, None] & (o_d < QUARTER)[None, :]
        _store_int4(KNEW, K, SIDE + o_side, o_k, o_c, m_t, m_x, QUARTER)
        _store_int4(VNEW, V, SIDE + o_side + ss_kv, o_v, o_c, m_t, m_x, QUARTER)
    else:
        m_x = m_t[:, None] & (o_d < D)[None, :]
        if STORAGE == "int8":
            _store_int8(KNEW, K, SIDE + o_side, o_k, o_c, m_t, m_x, LARGEST)
            _store_int8(VNEW, V, SIDE + o_side + ss_kv, o_v, o_c, m_t, m_x, LARGEST)
        else:
            b_k = tl.load(KNEW + o_k, mask=m_x, other=0.0)
            b_v = tl.load(VNEW + o_v, mask=m_x, other=0.0)
            if STORAGE == "fp8":
                b_unit = tl.full([BT, DP], 1.0, tl.float32)
                b_k = tl.div_rn(b_k.to(tl.float32), b_unit * tl.load(SIDE + i_h * ss_h))
                b_v = tl.div_rn(b_v.to(tl.float32), b_unit * tl.load(SIDE + i_h * ss_h + ss_kv))
                b_k, b_v = _e4m3(b_k), _e4m3(b_v)
            tl.store(K + o_c, b_k.to(K.dtype.element_ty), mask=m_x)
            tl.store(V + o_c, b_v.to(V.dtype.element_ty), mask=m_x)
