"""Prefix blocks kept consistent when requests are picked or cut, and how often they repeat."""

import numpy as np

from workloads.errors import InputError
from workloads.schema import Ints, PrefixBlocks


def pick(prefix: PrefixBlocks, rows: Ints) -> PrefixBlocks:
    """The blocks of the given rows (m,), in their order."""
    starts = prefix.offsets[:-1][rows]
    counts = np.diff(prefix.offsets)[rows]
    offsets = np.concatenate(([0], np.cumsum(counts)))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    return PrefixBlocks(
        prefix.block_tokens, offsets, prefix.ids[np.repeat(starts, counts) + within]
    )


def joined(one: PrefixBlocks, two: PrefixBlocks, order: Ints) -> PrefixBlocks:
    """The blocks of both traces' rows, one after the other, put into `order` (n + m,).

    No id of the second means what it means in the first. Raises InputError for blocks of two sizes.
    """
    if one.block_tokens != two.block_tokens:
        raise InputError(
            f"prefix blocks of {one.block_tokens} and {two.block_tokens} tokens, expected one size"
        )
    apart = int(one.ids.max(initial=-1)) + 1 - int(two.ids.min(initial=0))
    offsets = np.concatenate([one.offsets, one.offsets[-1] + two.offsets[1:]])
    ids = np.concatenate([one.ids, two.ids + apart])
    return pick(PrefixBlocks(one.block_tokens, offsets, ids), order)


def cut(prefix: PrefixBlocks, prompt_tokens: Ints, limit_tokens: int) -> PrefixBlocks:
    """The blocks left where prompts longer than limit_tokens lose their tail.

    A block cut through gets a new id, the same for all requests that shared it: they still share
    the piece, but not with requests that keep the whole block. prompt_tokens (n,) are the lengths
    before the cut.
    """
    kept = np.minimum(prompt_tokens, limit_tokens)
    counts = -(-kept // prefix.block_tokens)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    ids = prefix.ids[np.repeat(prefix.offsets[:-1], counts) + within]
    if limit_tokens % prefix.block_tokens:
        last = offsets[1:][prompt_tokens > limit_tokens] - 1
        _, piece = np.unique(ids[last], return_inverse=True)
        ids[last] = prefix.ids.max(initial=-1) + 1 + piece
    return PrefixBlocks(prefix.block_tokens, offsets, ids)


def unique_blocks(prefix: PrefixBlocks) -> int:
    """Number of distinct block ids."""
    return len(np.unique(prefix.ids))


def seen_before(prefix: PrefixBlocks) -> Ints:
    """Blocks (n,) of each request that an unlimited cache would already hold on its arrival.

    Requests are taken in order; a block counts only if all blocks before it count too.
    """
    counts = np.diff(prefix.offsets)
    request = np.repeat(np.arange(len(counts)), counts)
    _, first_at, which = np.unique(prefix.ids, return_index=True, return_inverse=True)
    is_new = request[first_at][which] == request
    within = np.arange(len(request)) - np.repeat(prefix.offsets[:-1], counts)
    # The leading run ends at the first new block, or with the prompt; every prompt has a block.
    run = np.where(is_new, within, counts[request])
    return np.asarray(np.minimum.reduceat(run, prefix.offsets[:-1]), dtype=np.int64)
