"""What the compiler makes of every shipped configuration, in a process without the interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.aot import compile, measure
from benchmarks.aot.cases import Case
from benchmarks.aot.compile import SHARED_LIMIT, key_of
from benchmarks.aot.measure import Row, launched_by
from benchmarks.aot.record import ARCHS, Seen, differences, read, tools

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


# Of CHECKED's rows alone a wrong value in the record can be told: each kernel is one of them.
KERNELS = {
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


def test_shipped_configurations(tmp_path: Path) -> None:
    """Configurations whose input the compiler was given before are judged by the record of that."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    command = [sys.executable, "-m", "benchmarks.aot", "--recorded"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    rows = [seen["row"] for seen in told["seen"]]
    compiled = [seen["row"] for seen in told["seen"] if seen["compiled"]]
    for arch in ARCHS:
        assert {row["kernel"] for row in rows if row["arch"] == arch} == KERNELS
        assert {row["kernel"] for row in compiled if row["arch"] == arch} == KERNELS
    faults = [
        f"{row['case']} {row['kernel']} sm_{row['arch']}: {fault}"
        for row in rows
        for fault in faults_of(row)
    ]
    assert not faults, "\n".join(faults)
    stale = told["stale"]
    assert not stale, "\n".join(["`make kernels` records anew what has changed:", *stale])


def test_each_way_a_record_can_be_wrong_is_told() -> None:
    row = Row("a", "k", 80, *[0] * 11, serialized=False, loop=0, lane_ops=0.0, issue_share=0.0)
    other = replace(row, case="b")
    recorded = {"1": row, "2": other}
    seen = {"1": Seen(row, compiled=True), "2": Seen(other, compiled=False)}
    assert differences(recorded, seen) == []
    for field in fields(Row):
        wrong = recorded | {"1": replace(row, **{field.name: 7})}
        (line,) = differences(wrong, seen)
        assert line == f"a k sm_80: {field.name} {getattr(row, field.name)}, recorded as 7"
    assert differences({"1": row, "3": other}, seen) == [
        "b k sm_80: not recorded",
        "b k sm_80: recorded, but is no configuration's now",
    ]


def test_a_key_covers_all_that_a_row_depends_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def key(text: str = "ir", target: str = "sm", options: str = "warps") -> str:
        hashed = [SimpleNamespace(hash=lambda value=value: value) for value in (target, options)]
        return key_of(SimpleNamespace(str_nodebug=lambda: text), *hashed)

    keys = [key(), key(text="IR"), key(target="SM"), key(options="WARPS")]
    monkeypatch.setenv("DISABLE_LLVM_OPT", "1")
    keys.append(key())
    monkeypatch.setattr(compile, "__version__", "3")
    keys.append(key())
    (tmp_path / "measure.py").write_text("counted otherwise")
    monkeypatch.setattr(measure, "__file__", str(tmp_path / "measure.py"))
    keys.append(key())
    assert len(set(keys)) == 7


def test_what_a_case_makes_of_a_row_is_not_taken_from_the_record() -> None:
    """128 lanes run 100 instructions for 3,200 elements of 6,400 bytes."""
    row = Row("old", "decode_kernel", 90, 4, *[0] * 10, False, 100, 1.0, 1.0)
    new = launched_by(Case("new", lambda arch: None, tile=3_200, tile_bytes=6_400), row)
    # At 0.9 * 4.8e12 / 132 / 1.98e9 = 16.53 bytes a cycle its tile takes 387.2 cycles, which have
    # room for 1,548.8 instructions of warps; its warps issue 400.
    assert new == replace(row, case="new", lane_ops=4.0, issue_share=25.8)
    combine = replace(row, kernel="combine_kernel")
    assert launched_by(Case("new", lambda arch: None), combine).lane_ops == 0


def test_a_record_of_other_tools_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for installed, expected in ((tools(), {}), (tools() | {"triton": "3"}, None)):
        path.write_text(json.dumps({"tools": installed, "rows": {}}))
        assert read(path) == expected


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
