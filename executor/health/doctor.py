"""`kvtwin doctor`: what this machine can run and why not, and whether the kernels are right."""

import os
import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from workloads.console import console, sheet

if TYPE_CHECKING:
    from executor.kernels.pool import Storage

VERDICT_WIDTH, WHAT_WIDTH = 5, 64
"""Columns of a line, on a terminal of twice as many or more."""
INTERPRETER_BREAKS = "triton 3.6 and 3.7 interpret no loops under numpy 2.4; expected numpy<2.4"


class Finding(NamedTuple):
    """One line: what was looked at, whether it works here (None: not judged), and why."""

    what: str
    works: bool | None
    why: str


def examine(device: str | None) -> int:
    """Print each finding as it is found; 0, or 1 where something that should work doesn't."""
    terminal = console()
    widths = VERDICT_WIDTH, min(WHAT_WIDTH, terminal.width // 2)
    failed = False
    for what, works, why in findings(device):
        failed |= works is False
        row = sheet("", "", "")
        row.show_header = False
        for column, width in zip(row.columns, widths, strict=False):
            column.width = width
        row.add_row({True: "ok", False: "FAILS", None: "-"}[works], what, why)
        terminal.print(row)
        terminal.file.flush()
    return int(failed)


def findings(device: str | None) -> Iterator[Finding]:
    """Everything that can be said about this machine."""
    yield Finding("simulate", True, f"Python {platform.python_version()}, no torch needed")
    if find_spec("torch") is None:
        yield Finding("execute", None, "torch is missing: pip install 'kvtwin[executor]'")
        return
    import torch

    yield Finding("execute on the CPU", True, f"torch {torch.__version__}, attention in torch")
    from executor.device.refusals import REFUSALS

    for one in REFUSALS:
        yield Finding("simulated, not executed", None, f"{one.what}: {one.why}")
    cuda = torch.cuda.is_available()
    if cuda:
        yield Finding("execute on a GPU", True, torch.cuda.get_device_properties(0).name)
    else:
        missing = "torch was built without CUDA" if torch.version.cuda is None else "no NVIDIA GPU"
        yield Finding("execute on a GPU", None, f"{missing}: --device cuda is refused")
    interpreted = not cuda or device == "cpu"
    if interpreted:
        os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are imported, which is below
    yield from torch_checks()
    if find_spec("triton") is None:
        yield Finding("Triton kernels", None, "triton is missing (it exists for Linux alone)")
        return
    if not interpreted:
        yield from kernel_checks("cuda")
    elif interpreter_broken():
        yield Finding("Triton's interpreter", None, INTERPRETER_BREAKS)
    else:
        yield from kernel_checks("cpu")


def interpreter_broken() -> bool:
    """Whether this pair of triton and numpy can't interpret kernels."""
    try:
        triton, numpy = version("triton"), version("numpy")
    except PackageNotFoundError:
        return False
    return triton.startswith(("3.6.", "3.7.")) and tuple(map(int, numpy.split(".")[:2])) >= (2, 4)


def torch_checks() -> Iterator[Finding]:
    """The executor's own attention in torch."""
    storages: tuple[Storage, ...] = ("native", "int8") if find_spec("triton") else ("native",)
    yield from _run(storages, "cpu", triton=False)


def kernel_checks(device: str) -> Iterator[Finding]:
    """Our kernels against plain attention, on the device or interpreted."""
    yield from _run(("native", "int8"), device, triton=True)


def _run(storages: "tuple[Storage, ...]", device: str, triton: bool) -> Iterator[Finding]:
    from executor.health.kernel_checks import INTERPRETED, TABLES, checks, largest_error

    how = "attention in torch"
    if triton:
        how = "Triton kernels" + ("" if device == "cuda" else ", interpreted")
    for check in checks(storages, INTERPRETED if triton and device == "cpu" else TABLES):
        what = f"{how}: {check.name}"
        try:
            error = largest_error(check, device, triton)
        except Exception as problem:  # whatever a driver or compiler raises is the finding
            reason = " ".join(str(problem).split())[:120]
            yield Finding(what, False, f"{type(problem).__name__}: {reason}")
            continue
        why = f"largest error {error:.1e}, allowed {check.tolerance:.0e}"
        yield Finding(what, error <= check.tolerance, why)
