"""Interpolation: exact where the measured times are linear, honest where they end."""

import pytest

from sim.cost.kernels.grid import Grid, Line


def plane(chunk: int, earlier: int, decodes: int, context: int) -> float:
    return 5 + 0.5 * chunk + 0.25 * earlier + 2 * decodes + 0.125 * context


def grid() -> Grid:
    rows = [
        ((c, e, n, k), plane(c, e, n, k))
        for c in (0, 16, 64, 256)
        for e in ((0,) if not c else (0, 128, 1024))
        for n in (0, 1, 4, 16)
        for k in ((0,) if not n else (16, 64, 4096))
        if c or n
    ]
    return Grid(rows)


@pytest.mark.parametrize(("decodes", "context"), [(1, 16), (3, 40), (16, 4096), (9, 1000.5)])
def test_decodes_on_a_plane(decodes: int, context: float) -> None:
    assert grid().decode(decodes, context) == pytest.approx(plane(0, 0, decodes, context))  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [(16, 0, 0, 0), (40, 64, 2, 32), (200, 1000, 15, 4000)])
def test_chunks_on_a_plane(at: tuple[int, int, int, int]) -> None:
    assert grid().chunk(*at) == pytest.approx(plane(*at))


def test_no_chunk_is_faster_than_the_smallest_measured() -> None:
    assert grid().chunk(2, 0) == plane(16, 0, 0, 0)


def test_a_part_of_a_tile_costs_the_tile() -> None:
    line = Line([(64, 1.0), (128, 2.0)])
    assert [line.at_tile(x) for x in (1, 64, 65, 128)] == [1.0, 1.0, 2.0, 2.0]
    assert line.at(96) == 1.5


def test_what_the_grid_reaches() -> None:
    known = grid()
    assert known.chunks == [16, 64, 256]
    assert (known.most_decodes, known.most_decodes_beside) == (16, 16)
    assert known.decode_contexts == [16, 64, 4096]
    assert known.longest_earlier == 1024
