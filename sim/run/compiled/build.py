"""The program: the loops, the scheduler, managers and cost models, lowered and compiled.

The text goes into the user's cache folder, for numba keeps machine code beside a source file.
"""

import hashlib
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sim.cost.roofline import Roofline
from sim.engine.loop import Loop
from sim.engine.scheduler import Scheduler
from sim.engine.swap import HostSwap
from sim.policy.counting.buffers import Buffers, RingBuffers
from sim.policy.counting.capped import SaturatingSum
from sim.policy.counting.pages import Pages
from sim.policy.counting.slabs import Rings, Slabs
from sim.policy.growing import GrowingBuffers, GrowingRings
from sim.policy.layer_groups import UnifiedPages
from sim.policy.manager import Pool
from sim.policy.paging import RingPages, SelectPages
from sim.policy.queued_pages import QueuedPages
from sim.policy.shared_pages import SharedPages
from sim.policy.sparse_pages import SparsePages
from sim.policy.spec import Retained
from sim.policy.state_pages import StatePages
from sim.policy.virtual import VirtualPages, VirtualRings
from sim.run.compiled import (
    ahead,
    given,
    lists,
    measured,
    measured_lines,
    measured_steps,
    prefixes,
    spaces,
    windows,
)
from sim.run.compiled.kinds import OWN, REQUEST, ROLES, TIMES
from sim.run.compiled.lower import Lowering
from sim.sequence import Sequence
from workloads.errors import InputError

BEGINNING = "# -- from here on"
ENTRIES = (
    ("loop", "turn"),
    ("loop", "woke"),
    ("loop", "ran"),
    ("scheduler", "servable"),
    ("scheduler", "schedule"),
    ("scheduler", "advance"),
    ("scheduler", "complete"),
    ("scheduler", "depart"),
    ("scheduler", "takes_arrivals"),
    ("scheduler", "_longest_context"),
    ("manager", "tallied"),
    ("manager", "reads"),
    ("cost", "step_as"),
)
FIELDS = (*REQUEST, *OWN, *(f"{name}_{part}" for name in TIMES for part in "sa"))
"""Of a request, in the order in which they lie."""
CLASSES = {
    "loop": Loop,
    "scheduler": Scheduler,
    "request": Sequence,
    "swap": HostSwap,
    "pool": Pool,
    "seen": SaturatingSum,
    "retained": Retained,
    "cost": Roofline,
}
MANAGERS: tuple[type, ...] = (
    Pages, SelectPages, RingPages, SharedPages, QueuedPages, UnifiedPages, StatePages, SparsePages,
    VirtualPages, VirtualRings, Slabs, Rings, Buffers, RingBuffers, GrowingBuffers, GrowingRings,
)  # fmt: skip
"""Exactly these kinds: a subclass may decide otherwise."""
COSTS = (
    "sim.cost.roofline.Roofline",
    "sim.cost.kernels.model.KernelTable",
    "sim.cost.steps.model.Calibrated",
    "sim.cost.roofline.FixedStep",
)
"""By name, for most runs load but one; in the order of `measured.cost_linear`."""
ROOFLINE, KERNELS, STEPS, FIXED = range(4)


class Program(NamedTuple):
    """The function that runs, and where in its array things are."""

    run: Callable[[Any, Any], int]
    fields: tuple[str, ...]  # `role_attribute`, from place 0 on; then come requests
    lists: tuple[tuple[str, str], ...]  # role and attribute
    scratch: tuple[str, ...]


class Source(NamedTuple):
    text: str
    fields: tuple[str, ...]
    lists: tuple[tuple[str, str], ...]
    scratch: tuple[str, ...]


GIVEN = (lists, given, ahead, spaces, prefixes, windows, measured_lines, measured_steps, measured)
"""Modules whose text, behind their beginnings, is a part of the program's."""


@cache
def lowered(managers: tuple[type, ...] = MANAGERS) -> Source:
    """All functions of runs under these kinds of managers, as text.

    Raises NotLowered where a line that a run may come to has no rule.
    """
    lowering = Lowering(CLASSES, managers)
    for role, method in ENTRIES:
        lowering.need(role, method)
    text = "\n\n".join([*map(_behind_beginning, GIVEN), lowering.text()])
    owners = "|".join([*ROLES, "run", "t"])
    fields = sorted(set(re.findall(rf"\bS\[((?:{owners})_\w+)\]", text)))
    places = [f"{name} = {i}" for i, name in enumerate(fields)]
    places += [f"request_{name} = {i}" for i, name in enumerate(FIELDS, len(fields))]
    head = "\n".join([f"WIDTH = {len(FIELDS)}", *places])
    return Source(
        f"{head}\n\n{text}",
        tuple(fields),
        tuple(sorted(lowering.lists)),
        tuple(sorted(lowering.scratch)),
    )


def _behind_beginning(module: ModuleType) -> str:
    source = inspect.getsource(module)
    return source[source.index(BEGINNING) :]


def cost_kind(cost: object) -> int | None:
    """Its place in COSTS; None for all others, subclasses among them."""
    kind = type(cost)
    name = f"{kind.__module__}.{kind.__qualname__}"
    if name not in COSTS or getattr(sys.modules[kind.__module__], kind.__name__) is not kind:
        return None
    return COSTS.index(name)


@cache
def known() -> Source:
    """`lowered`, kept beside the program from one process to the next: it takes 0.3 s."""
    place = _folder() / f"kvtwin_{_fingerprint()}.json"
    try:
        text, fields, named, scratch = json.loads(place.read_text())
        return Source(text, tuple(fields), tuple((a, b) for a, b in named), tuple(scratch))
    except (OSError, ValueError, TypeError):
        made = lowered()
    with suppress(OSError):
        _write(place, json.dumps(made))
    return made


def _fingerprint() -> str:
    """Of all sources that `lowered` reads, and of who reads them."""
    kinds = {owner for kind in (*CLASSES.values(), *MANAGERS) for owner in kind.__mro__}
    files = {getattr(sys.modules[kind.__module__], "__file__", None) for kind in kinds}
    paths = {Path(file) for file in files if file} | {*Path(__file__).parent.glob("*.py")}
    seen = hashlib.sha256(sys.version.encode())
    for path in sorted(paths):
        seen.update(path.read_bytes())
    return seen.hexdigest()[:16]


def program(compiled: bool = True) -> Program:
    """Machine code, or the same text under Python."""
    source = known() if compiled else lowered()
    module = _compiled(source.text) if compiled else _interpreted(source.text)
    return Program(module.run, *source[1:])


def is_warm() -> bool:
    """Whether there is machine code from an earlier run."""
    path = _place(_decorated(known().text))
    return any(path.parent.glob(f"__pycache__/{path.stem}.run-*.nbi"))


@cache
def _interpreted(text: str) -> ModuleType:
    module = ModuleType("kvtwin_interpreted")
    head = "from math import sqrt\nfrom typing import Any\n\n"
    exec(compile(head + text, "lowered", "exec"), module.__dict__)
    return module


def _decorated(text: str) -> str:
    """As numba wants it. One function is kept on disk, with all that it calls inside."""
    head = '"""Made by sim.run.compiled from the sources of sim.engine and sim.policy."""\n\n'
    head += "from math import sqrt\nfrom typing import Any\n\nfrom numba import njit\n\n"
    # Python calls `run` alone; what that calls need not be fit to be called from Python.
    inner = "@njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)\ndef "
    text = re.sub(r"^def ", inner, text, flags=re.MULTILINE)
    return head + text.replace(f"{inner}run(", "@njit(cache=True)\ndef run(")


@cache
def _compiled(text: str) -> ModuleType:
    text = _decorated(text)
    path = _place(text)
    if not path.exists():
        _write(path, text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except OSError as error:  # of numba's own libraries
        why = str(error).partition(". ")[0]
        raise InputError(
            f"numba can't be loaded ({why}), as when memory runs out; expected more memory, or "
            "KVTWIN_COMPILE=0"
        ) from None
    return module


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.write_text(text)
    unfinished.replace(path)


def has_place() -> bool:
    """Whether the text of a program, and numba's code beside it, can be written."""
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # or there is no home at all
        return False
    return os.access(folder, os.W_OK)


def _folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvtwin"


def _place(text: str) -> Path:
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return _folder() / f"kvtwin_{digest}.py"
