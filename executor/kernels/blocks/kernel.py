# mypy: disable-error-code="untyped-decorator,no-untyped-def,no-untyped-call"
"""Moves whole pages: within a pool, into a staging buffer, and back."""

import triton
import triton.language as tl


@triton.jit
def copy_rows_kernel(
    SRC, DST, FROM, TO, width, ss_row, sd_row,
    GATHER: tl.constexpr, SCATTER: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """Row FROM[i] of SRC to row TO[i] of DST; i itself on a side without a list."""
    i_n = tl.program_id(0).to(tl.int64)
    i_src, i_dst = i_n, i_n
    if GATHER:
        i_src = tl.load(FROM + i_n).to(tl.int64)
    if SCATTER:
        i_dst = tl.load(TO + i_n).to(tl.int64)
    o_w = tl.program_id(1) * BW + tl.arange(0, BW)
    m_w = o_w < width
    b_x = tl.load(SRC + i_src * ss_row + o_w, mask=m_w)
    tl.store(DST + i_dst * sd_row + o_w, b_x, mask=m_w)
