"""Compiles every shipped kernel configuration without a GPU and tabulates what came out.

``python -m benchmarks.aot [--json | --markdown] [--arch 90] [--case decode]``. The project's own
launch functions run on tiny CPU tensors against a stand-in driver that only names the target, so
the compiler sees exactly the specialisation (alignment, constants) that a launch on the GPU would.
The process must not have TRITON_INTERPRET set: that switch is read when kernels are decorated. Each
kernel is compiled once: what `ptxas` says of it is read from Triton's own call.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from benchmarks.aot.cases import CASES, Case

TOOLS = Path(triton.__file__).parent / "backends/nvidia/bin"
# Bytes of shared memory a program may ask for; the compiler does not check.
SHARED_LIMIT = {80: 166_912, 90: 232_448, 100: 232_448}
# An H200's 4.8 TB/s, nine tenths of which a copy may reach, by 132 multiprocessors at 1.98 GHz.
# Each of them issues four instructions a cycle.
COPY_BYTES_A_CYCLE = 0.9 * 4.8e12 / 132 / 1.98e9
ISSUED_A_CYCLE = 4

SHOWN = ("case", "arch", "warps", "registers", "spill_bytes", "shared_bytes", "loop", "issue_share")


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


class StandInDriver:
    """Answers what the JIT asks before it compiles; nothing can be launched through it."""

    def __init__(self, arch: int) -> None:
        self.arch = arch

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.arch, 32)

    def get_current_device(self) -> int:
        # The JIT caches per device: one id for two targets would return the first one's kernel.
        return self.arch

    def get_current_stream(self, device: int = 0) -> int:
        return 0


class Compiled(NamedTuple):
    name: str
    kernel: Any
    log: str  # what ptxas said; empty where the process had compiled it before


@contextmanager
def captured(arch: int) -> Iterator[list[Compiled]]:
    """Inside, launching a kernel compiles it for ``arch`` and records it instead of running it."""
    kernels: list[Compiled] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        with redirect_stdout(io.StringIO()) as log:
            kernel = run(self, *args, warmup=True, **kwargs)
        kernels.append(Compiled(self.fn.__name__, kernel, log.getvalue()))
        return kernel

    # Not set_active(): its way back, reset_active(), looks for a real driver and fails without one.
    stand_in = mock.patch.object(driver, "_active", StandInDriver(arch))
    with (
        stand_in,
        mock.patch.object(JITFunction, "run", compile_only),
        knobs.compilation.scope(),
        knobs.nvidia.scope(),
    ):
        knobs.nvidia.dump_ptxas_log = True
        knobs.compilation.always_compile = True  # a kernel on disk has no log
        knobs.compilation.disable_line_info = True
        yield kernels


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
    name, kernel, log = compiled
    ptx = kernel.asm["ptx"]

    def number(pattern: str) -> int:
        found = re.search(pattern, log)
        assert found is not None, log
        return int(found[1])

    loads = count(r"\bld\.global", ptx) + count(r"\bcp\.async\.c[ag]", ptx)
    async_16 = count(r"\bcp\.async\.c[ag]\.shared\.global[^;]*0x10, ", ptx)
    async_8 = count(r"\bcp\.async\.c[ag]\.shared\.global[^;]*0x8, ", ptx)
    load_16 = count(r"\bld\.global\S*\.(?:v4\.b32|v2\.b64)", ptx)
    decodes = case.tile and name.startswith("decode") and loops_of in case.name
    loops = decodes or (prefills and name == "prefill_kernel" and loops_of in case.name)
    loop = longest_loop(disassembled(kernel.asm["cubin"])) if loops else 0
    warps = kernel.metadata.num_warps
    issued = ISSUED_A_CYCLE * case.tile_bytes / COPY_BYTES_A_CYCLE
    return Row(
        case=case.name,
        kernel=name,
        arch=arch,
        warps=warps,
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
        loop=loop,
        lane_ops=round(loop * warps * 32 / case.tile, 2) if decodes else 0.0,
        issue_share=round(100 * loop * warps / issued, 1) if decodes else 0.0,
    )


def compile_case(case: Case, arch: int) -> list[Compiled]:
    with captured(arch) as kernels:
        case.launch(arch)
    return kernels


def table(
    archs: list[int], wanted: Callable[[Case], bool], prefills: bool, loops_of: str = ""
) -> list[Row]:
    """Rows of every wanted case on every architecture; a kernel that two cases share, once."""
    rows: dict[tuple[int, Any], Row] = {}
    for arch in archs:
        for case in CASES:
            if wanted(case):
                for compiled in compile_case(case, arch):
                    key = arch, compiled.kernel.hash
                    if key not in rows:
                        rows[key] = measure(case, compiled, arch, prefills, loops_of)
    return list(rows.values())


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON, no prefill loops")
    parser.add_argument("--markdown", action="store_true", help="the table of docs/kernels.md")
    parser.add_argument("--arch", type=int, action="append", choices=sorted(SHARED_LIMIT))
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--loops", default="", help="loops of cases whose name contains this alone")
    options = parser.parse_args(argv)
    archs = options.arch or sorted(SHARED_LIMIT)
    wanted = table(archs, lambda case: options.case in case.name, not options.json, options.loops)
    rows = [asdict(row) for row in wanted]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    if options.markdown:
        rows = [{key: row[key] for key in SHOWN} for row in rows if row["loop"]]
        print(f"| {' | '.join(SHOWN)} |\n{'|---' * len(SHOWN)}|")
        for row in rows:
            print(f"| {' | '.join(str(value or '') for value in row.values())} |")
        return
    if not rows:
        return
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in widths}, *rows]:
        print("  ".join(str(row[key]).ljust(width) for key, width in widths.items()))
