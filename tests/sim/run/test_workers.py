"""Workers and the process that started them."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, threading
from sim.run.workers import in_workers
if sys.argv[1] == "spawn":  # not forked where other threads run
    threading.Thread(target=threading.Event().wait, daemon=True).start()
rows = in_workers(abs, [(-n,) for n in range(9)], 2)
print(next(rows), next(rows), flush=True)
sys.exit(3)
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_who_exits_amid_the_results_ends(start: str) -> None:
    """The results are still referred to, so nobody has closed them; Python waits for children."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, start],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "0 1\n", "")
