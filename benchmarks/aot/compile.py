"""Compiles shipped kernel configurations without a GPU.

The project's own launch functions run on tiny CPU tensors against a stand-in driver that only names
the target, so the compiler sees exactly the specialisation (alignment, constants) that a launch on
the GPU would. The process must not have TRITON_INTERPRET set: that switch is read when kernels are
decorated. Each kernel is compiled once: what `ptxas` says of it is read from Triton's own call.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from triton import __version__, knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from benchmarks.aot import measure
from benchmarks.aot.cases import CASES, Case
from benchmarks.aot.measure import Compiled, Row

# Bytes of shared memory a program may ask for; the compiler does not check.
SHARED_LIMIT = {80: 166_912, 90: 232_448, 100: 232_448}


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


# Triton parses a function's text again for each call of it by another.
PARSED = cache(JITFunction.parse)


class Known(Exception):
    """What the compiler would make of its input is known: it need not go on."""


def key_of(module: Any, backend: Any, options: Any) -> str:
    """sha256 of all that a row depends on but its case: the compiler, its input, and measuring.

    Triton's IR is that before the first pass that looks at the target's layouts, without locations:
    a kernel stays what it is when a line above it, or the folder, is another. ``backend`` names the
    target and its ptxas.
    """
    environment = str(sorted(get_cache_invalidating_env_vars().items()))
    measured = Path(measure.__file__).read_text()
    text = module.str_nodebug()
    parts = (__version__, environment, backend.hash(), options.hash(), measured, text)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@contextmanager
def captured(arch: int, known: Collection[str] = ()) -> Iterator[list[Compiled]]:
    """Inside, launching a kernel compiles it for ``arch`` and records it instead of running it.

    What has one of the ``known`` keys is taken no further than its key.
    """
    kernels: list[Compiled] = []
    keys: list[str] = []
    run = JITFunction.run

    def compile_only(self: Any, *args: Any, warmup: bool = False, **kwargs: Any) -> Any:
        keys.clear()
        with redirect_stdout(io.StringIO()) as log:
            try:
                kernel = run(self, *args, warmup=True, **kwargs)
            except Known:
                kernel = None
        kernels.append(Compiled(self.fn.__name__, "".join(keys), kernel, log.getvalue()))
        return kernel

    def stop_where_known(backend: Any, stages: dict[str, Any], options: Any, *_: Any) -> None:
        go_on = stages["ttgir"]

        def look(module: Any, metadata: dict[str, Any]) -> Any:
            keys.append(key_of(module, backend, options))
            if keys[0] in known:
                raise Known
            return go_on(module, metadata)

        stages["ttgir"] = look

    # Not set_active(): its way back, reset_active(), looks for a real driver and fails without one.
    stand_in = mock.patch.object(driver, "_active", StandInDriver(arch))
    with (
        stand_in,
        mock.patch.object(JITFunction, "run", compile_only),
        mock.patch.object(JITFunction, "parse", PARSED),
        knobs.compilation.scope(),
        knobs.nvidia.scope(),
        knobs.runtime.scope(),
    ):
        knobs.nvidia.dump_ptxas_log = True
        knobs.compilation.always_compile = True  # a kernel on disk has no log
        knobs.compilation.disable_line_info = True
        knobs.runtime.add_stages_inspection_hook = stop_where_known
        yield kernels


def compile_case(case: Case, arch: int, known: Collection[str] = ()) -> list[Compiled]:
    with captured(arch, known) as kernels:
        case.launch(arch)
    return kernels


def table(
    archs: list[int], wanted: Callable[[Case], bool], prefills: bool, loops_of: str = ""
) -> list[Row]:
    """Rows of every wanted case on every architecture; a kernel that two cases share, once."""
    rows: dict[str, Row] = {}
    for arch in archs:
        for case in CASES:
            if wanted(case):
                for compiled in compile_case(case, arch):
                    if compiled.key and compiled.key not in rows:
                        row = measure.measure(case, compiled, arch, prefills, loops_of)
                        rows[compiled.key] = row
    return list(rows.values())
