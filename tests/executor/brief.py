"""Measuring cut short, where nobody judges what was measured: every step of it runs, in no time."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from executor.device import machine
from executor.validation import calibrate, validate
from sim.plan import AS_PER_S


@contextmanager
def brief_measuring() -> Iterator[None]:
    """Within it a point is timed for a millisecond, a run that pauses does so for twenty, and the
    machine copies little and multiplies small matrices. Durations alone are poorer for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrate, "VISIT_AS", AS_PER_S // 1000)
        patch.setattr(validate, "PAUSE_S", 0.02)
        patch.setattr(machine, "COPIED_BYTES", {"cpu": 1 << 20})
        patch.setattr(machine, "MATMUL_SIZE", {"cpu": 128})
        yield
