"""Choices made on the host, from integers alone."""

from __future__ import annotations

import pytest

from executor.kernels.configs import ceil_div, pow2_above, resident_programs


def test_rounding() -> None:
    assert [pow2_above(n) for n in (1, 2, 3, 16, 17, 80)] == [1, 2, 4, 16, 32, 128]
    assert [ceil_div(n, 4) for n in (0, 1, 4, 5)] == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "resident"),
    [
        # By hand, of sm_90's 65,536 registers and 228 KiB: a thread's registers x 32 to a multiple
        # of 256, times warps; shared memory and 1 KiB. 64 warps at most.
        (128, 72 << 10, 4, 3),  # 4 by registers, 228 / 73 = 3 by memory
        (76, 37 << 10, 4, 6),  # 65,536 / (2,560 x 4) = 6, 228 / 38 = 6
        (166, 78 << 10, 4, 2),  # 65,536 / (5,376 x 4) = 3, 228 / 79 = 2
        (255, 200 << 10, 8, 1),
        (16, 0, 4, 16),
    ],
)
def test_programs_that_fit(registers: int, shared: int, warps: int, resident: int) -> None:
    assert resident_programs(registers, shared, warps, 228 << 10) == resident
