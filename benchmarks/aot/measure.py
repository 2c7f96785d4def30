"""What one compiled kernel is judged by: counted in its PTX and SASS, read from ptxas' log."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import triton

from benchmarks.aot.cases import Case

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
# An H200's 4.8 TB/s, nine tenths of which a copy may reach, by 132 multiprocessors at 1.98 GHz.
# Each of them issues four instructions a cycle.
COPY_BYTES_A_CYCLE = 0.9 * 4.8e12 / 132 / 1.98e9
ISSUED_A_CYCLE = 4


@dataclass(frozen=True, slots=True)
class Row:
    """What one kernel became on one architecture. Counts are of PTX instructions."""

    case: str
    kernel: str
    arch: int
    warps: int
    registers: int
    spill_bytes: int
    shared_bytes: int
    mma: int
    wgmma: int
    async_16: int  # cp.async of 16 bytes
    async_8: int  # where rows are no multiple of 16 bytes
    load_16: int  # ordinary global loads of 16 bytes
    load_less: int  # all other global loads and cp.async
    bulk: int  # TMA
    serialized: bool  # ptxas could not overlap wgmma
    loop: int  # SASS instructions a warp issues in the longest loop, where it was looked at
    lane_ops: float  # of a decode's, per loaded element of K or V
    issue_share: float  # % of an H200's issue slots that a decode's loop takes at the copy rate


class Compiled(NamedTuple):
    name: str
    key: str  # of what the compiler was given; empty where the process had compiled it before
    kernel: Any  # None where what becomes of that key was known
    log: str  # what ptxas said


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


def longest_loop(sass: str) -> int:
    """Instructions between a backward branch and its target, the longest such span."""
    labels: dict[str, int] = {}
    spans = [0]
    position = 0
    for line in sass.splitlines():
        if label := re.match(r"\s*(\.L_x_\d+):", line):
            labels[label[1]] = position
        elif re.match(r"\s*/\*[0-9a-f]{4,}\*/", line):
            position += 1
            branch = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
            if branch and branch[1] in labels:
                spans.append(position - labels[branch[1]])
    return max(spans[:-1] if len(spans) > 1 else spans)  # the last one is the trap after EXIT


def disassembled(cubin: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        # No analysis of data flow: it takes a third of the time and labels no direct branch.
        command = [str(TOOLS / "nvdisasm"), "-c", "-ndf", file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def measure(
    case: Case, compiled: Compiled, arch: int, prefills: bool = True, loops_of: str = ""
) -> Row:
    """prefills: whether their loops are looked at, too, as those of decodes are.

    Of cases with `loops_of` in their name alone: disassembling takes as long as half a compilation.
    """
    name, _, kernel, log = compiled
    ptx = kernel.asm["ptx"]

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        assert found is not None, log
        return int(found[1])

    loads = count(r"\bld\.global", ptx) + count(r"\bcp\.async\.c[ag]", ptx)
    async_16 = count(r"\bcp\.async\.c[ag]\.shared\.global[^;]*0x10, ", ptx)
    async_8 = count(r"\bcp\.async\.c[ag]\.shared\.global[^;]*0x8, ", ptx)
    load_16 = count(r"\bld\.global\S*\.(?:v4\.b32|v2\.b64)", ptx)
    loops = decodes(case, name) or (prefills and name == "prefill_kernel")
    looked_at = loops and loops_of in case.name
    row = Row(
        case=case.name,
        kernel=name,
        arch=arch,
        warps=kernel.metadata.num_warps,
        registers=number(r"Used (\d+) registers"),
        spill_bytes=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        shared_bytes=kernel.metadata.shared,
        mma=count(r"\bmma\.sync", ptx),
        wgmma=count(r"\bwgmma\.mma_async", ptx),
        async_16=async_16,
        async_8=async_8,
        load_16=load_16,
        load_less=loads - async_16 - async_8 - load_16,
        bulk=count(r"\bcp\.async\.bulk", ptx),
        serialized="serialized" in log,
        loop=longest_loop(disassembled(kernel.asm["cubin"])) if looked_at else 0,
        lane_ops=0.0,
        issue_share=0.0,
    )
    return launched_by(case, row)


def decodes(case: Case, kernel: str) -> bool:
    return case.tile > 0 and kernel.startswith("decode")


def launched_by(case: Case, row: Row) -> Row:
    """The row with what follows from the case, not from the compiler: its name and its shares."""
    if not decodes(case, row.kernel):
        return replace(row, case=case.name, lane_ops=0.0, issue_share=0.0)
    issued = ISSUED_A_CYCLE * case.tile_bytes / COPY_BYTES_A_CYCLE
    return replace(
        row,
        case=case.name,
        lane_ops=round(row.loop * row.warps * 32 / case.tile, 2),
        issue_share=round(100 * row.loop * row.warps / issued, 1),
    )
