"""What the compiler makes of every shipped configuration, in a process without the interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.aot.compile import SHARED_LIMIT

BOUNDED = "bfloat16 d128"
# Instructions a lane spends per element of K and V. At an H200's copy rate 3.87 take 80 % of
# its issue slots for int4, 6.3 for int8 and fp8. sm_80 has no conversion for fp8. Head dim 64 has
# half the work to spread its softmax over.
LANE_OPS = {
    f"native {BOUNDED}": 5.6,
    f"int8 {BOUNDED}": 4.2,
    f"fp8 {BOUNDED}": 5.2,
    f"int4 {BOUNDED}": 3.8,
}


@pytest.mark.parametrize("arch", [80, 90])
def test_shipped_configurations(arch: int, tmp_path: Path) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-m", "benchmarks.aot", "--json", "--arch", str(arch)]
    command += ["--loops", BOUNDED]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)
    assert {row["kernel"] for row in rows} >= {
        "store_kernel",
        "decode_kernel",
        "decode_packed_kernel",
        "combine_kernel",
        "prefill_kernel",
        "landmark_kernel",
        "page_score_kernel",
        "mass_kernel",
        "copy_rows_kernel",
    }
    faults = [f"{row['case']} {row['kernel']}: {fault}" for row in rows for fault in faults_of(row)]
    assert not faults, "\n".join(faults)


def faults_of(row: dict[str, Any]) -> list[str]:
    found = []
    if row["spill_bytes"]:
        found.append(f"spills {row['spill_bytes']} bytes")
    if row["shared_bytes"] > SHARED_LIMIT[row["arch"]]:
        found.append(f"asks for {row['shared_bytes']} bytes of shared memory")
    if row["serialized"]:
        found.append("wgmma serialised")
    if not loads_are_wide(row):
        found.append("keys or pages are not loaded 16 bytes at a time")
    case, kernel = row["case"], row["kernel"]
    # 32 rows, all that fits beside wide packed contexts, are too few for wgmma.
    tall = "float32" not in case and ("native" in case or "d256" not in case)
    if kernel == "prefill_kernel" and row["arch"] == 90 and tall and row["wgmma"] == 0:
        found.append("no wgmma")
    if "decode" in kernel:
        bounds = (bound for kind, bound in LANE_OPS.items() if f"decode {kind}" in case)
        if not all(0 < row["lane_ops"] <= bound for bound in bounds):
            found.append(f"{row['lane_ops']} instructions an element")
    return found


def loads_are_wide(row: dict[str, Any]) -> bool:
    case, kernel = row["case"], row["kernel"]
    if "decode" in kernel:
        if "int4 bfloat16 d80" in case:  # its rows of 40 bytes are multiples of 8 alone
            return bool(row["async_8"])
        return row["async_16"] > 0 and row["async_8"] == 0
    if kernel == "prefill_kernel" and "float32" not in case:
        return row["async_16"] > 0
    if kernel == "store_kernel" and "int4" not in case:
        return row["load_16"] >= 2
    if kernel == "copy_rows_kernel":
        return row["load_16"] > 0
    return True
