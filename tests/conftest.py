"""What must be settled before any test module is imported."""

from __future__ import annotations

import os
from pathlib import Path

# numpy's matrices are small here, and test workers share the cores: its second thread would spend
# most of its time waiting, and waits by spinning.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Triton reads this where it is first imported, whichever test does so: its own library functions
# are made for the interpreter or for a GPU then, for the whole process.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"
