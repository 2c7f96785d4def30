"""Ranking for sparse policies: page landmarks and scores, attention mass, ordered selection."""

from __future__ import annotations

import torch

from ..check import mass_arguments, score_arguments
from ..configs import LOG2E, ceil_div, pow2_above
from ..pool import KVPool

BLOCK_KEYS = 64
BLOCK_PAGES = 64


def allocate_landmarks(pool: KVPool, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Unwritten landmarks [pages, kv_heads, 2, head_dim]: low and high marks of each page."""
    shape = (pool.pages, pool.kv_heads, 2, pool.head_dim)
    return torch.empty(shape, dtype=dtype, device=pool.k.device)


def build_landmarks(
    pool: KVPool, pages: torch.Tensor, fill: torch.Tensor, marks: torch.Tensor
) -> torch.Tensor:
    """Marks of ``pages`` int32 or int64 [n], of whose slots the first ``fill`` int32 [n] are used.

    Run it over the pages a step wrote to. Marks are of the keys as they read back, not as given.
    """
    if len(pages) == 0:
        return marks
    from .kernel import landmark_kernel

    codes, side = pool.codes[0], pool.side_strides
    landmark_kernel[(len(pages), pool.kv_heads)](
        codes,
        pool.side,
        pages,
        fill,
        marks,
        *codes.stride()[:3],
        *side[:3],
        side[4],
        *marks.stride()[:3],
        D=pool.head_dim,
        DP=pow2_above(pool.head_dim),
        STORAGE=pool.storage,
        BN=min(BLOCK_KEYS, pow2_above(pool.page_size)),
        num_warps=4,
    )
    return marks


def page_scores(
    q: torch.Tensor,
    marks: torch.Tensor,
    table: torch.Tensor,
    lengths: torch.Tensor,
    page_size: int,
) -> torch.Tensor:
    """Scores fp32 [batch, kv_heads, max_pages], -inf beyond a sequence's pages.

    q [batch, q_heads, head_dim], table int32 [batch, max_pages], lengths int32 [batch]. A score is
    an upper bound of q·k over the page, and the greatest of its group's heads: a page stays if any
    head wants it.
    """
    batch, _, head_dim = q.shape
    kv_heads, width = marks.shape[1], table.shape[1]
    heads = score_arguments(q, marks)
    scores = torch.empty(batch, kv_heads, width, dtype=torch.float32, device=q.device)
    if scores.numel() == 0:
        return scores
    from .kernel import page_score_kernel

    page_score_kernel[(batch, kv_heads, ceil_div(width, BLOCK_PAGES))](
        q,
        marks,
        table,
        lengths,
        scores,
        width,
        page_size,
        *q.stride()[:2],
        *marks.stride()[:3],
        table.stride(0),
        *scores.stride()[:2],
        HEADS=heads,
        GP=max(16, pow2_above(heads)),
        D=head_dim,
        DP=pow2_above(head_dim),
        BN=BLOCK_PAGES,
        num_warps=8 if q.dtype == torch.float32 else 4,
    )
    return scores


def select(scores: torch.Tensor, count: int) -> torch.Tensor:
    """Indices int32 [..., count] of the greatest scores fp32 [..., n], ascending, then -1.

    Of equal scores the lower index wins, and -inf is never chosen. No kernel of our own: with the
    index in its low bits every key is unique, so that any top-k gives this one answer.
    """
    width = scores.shape[-1]
    bits = scores.contiguous().view(torch.int32).long()
    bits = torch.where(scores == 0, 0, bits)  # -0.0 equals 0.0
    # Negative floats grow downwards in their bits: mirror them below the positive ones.
    order = torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)
    index = torch.arange(width, device=scores.device)
    best = ((order << 32) + (0xFFFFFFFF - index)).topk(min(count, width), dim=-1).values
    chosen = 0xFFFFFFFF - (best & 0xFFFFFFFF)
    chosen = torch.where(scores.gather(-1, chosen) > float("-inf"), chosen, width)
    chosen = chosen.sort(-1).values
    chosen = torch.where(chosen == width, -1, chosen).int()
    return torch.nn.functional.pad(chosen, (0, count - chosen.shape[-1]), value=-1)


def select_pages(
    scores: torch.Tensor, table: torch.Tensor, lengths: torch.Tensor, page_size: int, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Table int32 [batch, kv_heads, count] and lengths int32 [batch, kv_heads] for ``decode``.

    The newest page is always among the ``count``; being last it is also the only partial one, so
    that a head's kept keys are a length again.
    """
    last = (lengths.long() + page_size - 1) // page_size - 1
    tail = torch.arange(scores.shape[-1], device=scores.device) == last[:, None]
    chosen = select(scores.masked_fill(tail[:, None], float("inf")), count)
    rows = table[:, None].expand(-1, scores.shape[1], -1)
    kept = (chosen >= 0).sum(-1)
    unused = (last + 1) * page_size - lengths
    lengths = (kept * page_size - unused[:, None]).clamp(min=0)
    return rows.gather(-1, chosen.clamp(min=0).long()), lengths.int()


def accumulate_mass(
    q: torch.Tensor,
    lse: torch.Tensor,
    pool: KVPool,
    lengths: torch.Tensor,
    mass: torch.Tensor,
    *,
    max_length: int,
    table: torch.Tensor | None = None,
    start: torch.Tensor | None = None,
    newest: torch.Tensor | None = None,
    scale: float | None = None,
) -> None:
    """Add a decode step's attention to ``mass`` fp32 [pages, kv_heads, page_size] (heavy hitters).

    q, lengths [batch] and addresses as given to ``decode``, ``lse`` as it returned. The newest
    key's mass is set, not added to: a slot needs no clearing when it is reused. ``newest`` int32
    [batch] says which of its sequence's keys that is; default the last.
    """
    batch, _, head_dim = q.shape
    heads = mass_arguments(q, pool, mass, table, start)
    if batch == 0 or max_length == 0:
        return
    from .kernel import mass_kernel

    newest = lengths - 1 if newest is None else newest
    codes, side = pool.codes[0], pool.side_strides
    mass_kernel[(ceil_div(max_length, BLOCK_KEYS), batch, pool.kv_heads)](
        q,
        lse,
        codes,
        pool.side,
        table,
        start,
        lengths,
        newest,
        mass,
        (head_dim**-0.5 if scale is None else scale) * LOG2E,
        *q.stride()[:2],
        *lse.stride(),
        *codes.stride()[:3],
        *side[:3],
        side[4],
        0 if table is None else table.stride(0),
        *mass.stride()[:2],
        HEADS=heads,
        GP=max(16, pow2_above(heads)),
        D=head_dim,
        DP=pow2_above(head_dim),
        PAGED=table is not None,
        PAGE=pool.page_size if table is not None else 0,
        STORAGE=pool.storage,
        BN=BLOCK_KEYS,
        num_warps=8 if q.dtype == torch.float32 else 4,
    )
