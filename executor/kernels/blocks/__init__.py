"""Whole pages: copy on write, and swapping through a staging buffer.

They take any tensor whose first axis is the page and whose pages are each contiguous: a pool's k,
v and side (fp8's aside, which belongs to no page), landmarks or mass. Pages may be far apart.
"""

from __future__ import annotations

import math

import torch

from ..configs import ceil_div

BLOCK_WORDS = 2048


def copy(tensor: torch.Tensor, pairs: torch.Tensor) -> None:
    """Page pairs[i, 0] to page pairs[i, 1], for int64 pairs [n, 2].

    Pairs run at once: no page may be written twice, or be both a source and a target.
    """
    source, target = pairs.t().contiguous()
    _move(tensor, tensor, source, target)


def gather(tensor: torch.Tensor, pages: torch.Tensor, staging: torch.Tensor) -> None:
    """Pages int64 [n] into the first n rows of ``staging`` [>= n, ...]; device or pinned memory."""
    _move(tensor, staging, pages, None)


def scatter(staging: torch.Tensor, tensor: torch.Tensor, pages: torch.Tensor) -> None:
    """The first n rows of ``staging`` back into pages int64 [n]."""
    _move(staging, tensor, None, pages)


def _rows(tensor: torch.Tensor, word: torch.dtype) -> torch.Tensor:
    """[pages, words of one page]; a view, so that pages need not be neighbours."""
    if tensor.numel() and not tensor[0].is_contiguous():
        raise ValueError(f"a page must be contiguous: {tensor.shape}, strides {tensor.stride()}")
    return tensor.flatten(1).view(word)


def _move(
    src: torch.Tensor, dst: torch.Tensor, read: torch.Tensor | None, write: torch.Tensor | None
) -> None:
    ids = read if write is None else write
    assert ids is not None
    if src.dtype != dst.dtype or src.shape[1:] != dst.shape[1:]:
        raise ValueError(f"pages differ: {src.dtype} {src.shape}, {dst.dtype} {dst.shape}")
    if len(ids) == 0:
        return
    from .kernel import copy_rows_kernel

    # The widest word that pages, their distances and where they begin are whole multiples of.
    spans = (
        math.prod(src.shape[1:]),
        src.stride(0),
        dst.stride(0),
        src.storage_offset(),
        dst.storage_offset(),
    )
    unit = math.gcd(4, *(span * src.element_size() for span in spans))
    word = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[unit]
    rows_src, rows_dst = _rows(src, word), _rows(dst, word)
    width = rows_src.shape[1]
    copy_rows_kernel[(len(ids), ceil_div(width, BLOCK_WORDS))](
        rows_src,
        rows_dst,
        read,
        write,
        width,
        rows_src.stride(0),
        rows_dst.stride(0),
        GATHER=read is not None,
        SCATTER=write is not None,
        BW=BLOCK_WORDS,
        num_warps=8,
    )
