"""What must be settled before any test module is imported."""

from __future__ import annotations

import os
from pathlib import Path

# Triton reads this where it is first imported, whichever test does so: its own library functions
# are made for the interpreter or for a GPU then, for the whole process.
if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"
