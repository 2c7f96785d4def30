"""Keys of a ragged batch cut into pieces of one size: the choice, its layout, the kernels."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
import torch

from executor.kernels import decode
from executor.kernels.decode import reference
from executor.kernels.decode.pieces import (
    FIELDS,
    LEAST_TILES,
    MOST_PIECES,
    START_TILES,
    Pieces,
    cut,
    lay_out,
    most_pieces,
)

SLOTS = 49  # of one key head of eight, on a chip that runs 396 programs


def laid_out(tiles: list[int], counts: Any, programs: int = 0) -> tuple[Any, Any, bool]:
    counts = np.array(counts)
    each = np.full((programs or counts.sum(), FIELDS), 99, dtype=np.int32)
    rows = np.full((len(tiles), 2), 99, dtype=np.int32)
    return each, rows, lay_out(np.array(tiles), counts, each, rows)


def ends(tiles: list[int], counts: Any) -> int:
    """When the last program ends, in tiles: each begins where one has ended, in their order."""
    chip = [0] * SLOTS
    for sequence, piece, pieces, _ in laid_out(tiles, counts)[0].tolist():
        span = -(-tiles[sequence] // pieces)
        keys = max(0, min(span, tiles[sequence] - piece * span))
        heapq.heapreplace(chip, chip[0] + keys + START_TILES)
    return max(chip)


RAGGED = {
    "one long": [500] + [4] * 63,
    "4,096 beside 1,000": [64, *range(12, 20), *range(13, 20)],
    "steps": [2**i for i in range(10)],
    "halves": [300] * 8 + [10] * 24,
}


@pytest.mark.parametrize("name", RAGGED)
def test_a_ragged_batch_ends_with_its_work(name: str) -> None:
    """Not with its longest sequence: within twice the work a slot, and a quarter sooner than with
    the pieces that suit the longest."""
    tiles, most = RAGGED[name], most_pieces(len(RAGGED[name]), SLOTS)
    ours = ends(tiles, cut(np.array(tiles), SLOTS, most))
    assert ours <= 2 * sum(tiles) / SLOTS
    assert ours <= 0.8 * ends(tiles, cut(np.full(len(tiles), max(tiles)), SLOTS, most))


@pytest.mark.parametrize("batch", [1, 7, 64, 256, 500])
@pytest.mark.parametrize("longest", [0, 1, 3, 16, 2000])
def test_equal_sequences_fill_the_chip(batch: int, longest: int) -> None:
    most = most_pieces(batch, SLOTS)
    counts = cut(np.full(batch, longest), SLOTS, most)
    pieces = int(counts[0])
    assert (counts == pieces).all()
    assert 1 <= pieces <= MOST_PIECES
    assert batch * pieces <= most
    assert pieces == 1 or longest // pieces >= LEAST_TILES
    if longest == 2000:
        waves = -(-batch * pieces // SLOTS)
        assert batch * pieces / (waves * SLOTS) > 0.85


def test_what_fills_the_chip_is_not_cut() -> None:
    assert (cut(np.array([100] * 8 * SLOTS), SLOTS, most_pieces(8 * SLOTS, SLOTS)) == 1).all()


def test_longest_pieces_first_each_in_a_row_of_its_own() -> None:
    tiles = [3, 40, 0, 24]
    each, rows, whole = laid_out(tiles, [1, 4, 1, 2], programs=10)
    assert each.tolist() == [
        [3, 0, 2, 0],  # 12 tiles
        [3, 1, 2, 1],
        [1, 0, 4, 2],  # 10
        [1, 1, 4, 3],
        [1, 2, 4, 4],
        [1, 3, 4, 5],
        [0, 0, 1, 6],
        [2, 0, 1, 7],
        *[[-1, 99, 99, 99]] * 2,
    ]
    assert rows.tolist() == [[6, 1], [2, 4], [7, 1], [0, 2]]
    assert not whole
    each, _, whole = laid_out(tiles, [1, 1, 1, 1])
    assert whole
    assert each[:, [0, 3]].tolist() == [[1, 1], [3, 3], [0, 0], [2, 2]]


WAYS: dict[str, dict[str, Any]] = {
    "page 16": {"page": 16},
    "page 1": {"page": 1, "dtype": torch.float16},
    "contiguous": {"page": 0},
    "window": {"page": 16, "window": 90, "sinks": 5},
    "window, page 1": {"page": 1, "window": 70, "sinks": 0},
    "ring": {"page": 8, "window": 60, "sinks": 4, "ring": True},
    "int8": {"page": 16, "storage": "int8", "dtype": torch.float16},
    "int4": {"page": 16, "storage": "int4", "dtype": torch.float16},
    "fp8 window": {"page": 1, "storage": "fp8", "window": 90, "sinks": 5, "dtype": torch.float16},
}


@pytest.mark.parametrize("way", WAYS)
def test_ragged_and_padded_batches_match_the_reference(
    way: str, build: Any, device: str, moved: Any, tolerance: Any
) -> None:
    """Chosen for shorter lengths than they are used with, with programs to spare, sequences without
    keys in between and behind."""
    given = {"window": 0, "sinks": 0, "ring": False} | WAYS[way]
    options = {key: given.pop(key) for key in ("window", "sinks", "ring")}
    lengths = [17, 0, 330, 1, 64, 0, 0]
    keep = options["window"] + options["sinks"] if options["ring"] else 0
    scene = build(lengths, keep=keep, kv_heads=1, **given)
    chosen = np.array([1, 1, 5, 1, 2, 1, 1])
    each, rows, whole = laid_out([1, 0, 20, 0, 3, 0, 0], chosen, programs=15)
    pieces = Pieces(torch.from_numpy(each).to(device), torch.from_numpy(rows).to(device), whole)
    dtype = given.get("dtype", torch.float32)
    q = torch.randn(len(lengths), 3, 64, generator=torch.Generator().manual_seed(5)).to(dtype)
    out, lse = decode(
        q.to(device),
        moved(scene.pool),
        scene.lengths.to(device),
        max_length=330,
        pieces=pieces,
        **scene.where_on_device,
        **options,
    )
    expected, expected_lse = reference.decode(
        q, scene.pool, scene.lengths, **scene.where, **options
    )
    close = tolerance(dtype, given.get("storage", "native"))
    torch.testing.assert_close(out.cpu(), expected, atol=close, rtol=close)
    torch.testing.assert_close(lse.cpu(), expected_lse, atol=close, rtol=close)
    assert (out[[1, 5, 6]] == 0).all()


def test_heads_that_chose_their_own_pages(build: Any, device: str, moved: Any) -> None:
    scene = build([40, 48], page=8)
    table = torch.stack([scene.table[:, [4, 0, 2]], scene.table[:, [1, 3, 4]]], 1)
    lengths = torch.tensor([[24, 17], [3, 0]], dtype=torch.int32)
    q = torch.randn(2, 6, 64)
    given = q.to(device), moved(scene.pool), lengths.to(device)
    expected, _ = reference.decode(q, scene.pool, lengths, table=table)
    for pieces in (None, 3):
        out, _ = decode(*given, max_length=24, table=table.to(device), pieces=pieces)
        torch.testing.assert_close(out.cpu(), expected, atol=2e-5, rtol=2e-5)
