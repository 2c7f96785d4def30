"""Pieces that are kept from step to step, in memory that graphs find again."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from executor.attention.cuts import Cuts
from executor.attention.sender import Sender
from executor.attention.triton_path import TritonAttention
from executor.cache.paged import Paged
from executor.kernels import allocate
from executor.kernels.decode import tile_keys
from executor.work import Decode, Work
from sim.plan import Chunk

POOL = allocate(8, 2, 16, 64)
TILE = tile_keys(POOL)


@pytest.fixture(autouse=True)
def chip() -> Any:
    with mock.patch("executor.kernels.decode.multiprocessors", return_value=16):
        yield


def counts(pieces: Any) -> list[int]:
    return pieces.rows[:, 1].tolist()


def test_a_choice_serves_while_lengths_move_less_than_a_tile() -> None:
    cuts = Cuts(POOL, Sender(torch.device("cpu")), 0)
    lengths = np.array([64 * TILE, 3])
    first = cuts.of(lengths)
    chosen = counts(first)
    assert chosen[0] > chosen[1] == 1
    assert cuts.of(lengths + TILE - 1) is first
    assert cuts.of(lengths + TILE) is not first
    assert cuts.of(lengths[::-1].copy()) is not first
    assert counts(cuts.of(lengths[::-1].copy())) == chosen[::-1]
    assert len(cuts.of(lengths[:1]).rows) == 1


def test_a_window_caps_what_is_cut() -> None:
    cuts = Cuts(POOL, Sender(torch.device("cpu")), TILE)
    first = cuts.of(np.array([64 * TILE, TILE]))
    assert counts(first) == [1, 1]
    assert cuts.of(np.array([640 * TILE, TILE])) is first


def test_padded_batches_have_programs_of_one_number() -> None:
    cuts = Cuts(POOL, Sender(torch.device("cpu")), 0)
    cuts.reserve(8)
    found = [cuts.padded(np.array(lengths), 4) for lengths in ([1], [9000, 1, 7], [500] * 4)]
    assert len({(len(one.each), one.each.data_ptr()) for one in found}) == 1
    assert not any(one.whole for one in found)
    # Memory is one: what was sent last is what any of them reads.
    assert counts(found[0]) == counts(found[-1])


def test_no_launched_step_moves_memory_that_a_graph_has_captured() -> None:
    table = Paged(200, 16)
    attention = TritonAttention(table, [allocate(200, 2, 16, 64)])
    attention.reserve(2, 64)
    decodes = Work((), (), (Decode(0, 5), Decode(1, 9)))

    def padded() -> list[int]:
        table.follow(decodes)
        attention.begin_padded(decodes, 2, 64)
        step = attention._steps[0]
        assert step.pieces
        assert step.decodes
        given = (step.slots, attention._lengths, step.decodes.table, *step.pieces[:2])
        return [tensor.data_ptr() for tensor in given]

    captured = padded()
    chunks = tuple(Chunk(2 + i, 0, 60, True) for i in range(20))
    large = Work((), chunks, tuple(Decode(30 + i, 40) for i in range(20)))
    table.follow(large)
    attention.begin(large)
    assert padded() == captured
