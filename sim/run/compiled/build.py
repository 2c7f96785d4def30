"""Programs: the loop, the scheduler, one manager and one cost model, lowered and compiled.

The text goes into the user's cache folder, for numba keeps machine code beside a source file.
"""

import hashlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sim.cost.roofline import Roofline
from sim.engine.loop import Loop
from sim.engine.scheduler import Scheduler
from sim.policy.counting.capped import SaturatingSum
from sim.policy.manager import Pool
from sim.run.compiled import given, lists
from sim.run.compiled.kinds import REQUEST, ROLES, TIMES
from sim.run.compiled.lower import Lowering
from sim.run.compiled.rules import NotLowered
from sim.sequence import Sequence
from workloads.errors import InputError

BEGINNING = "# -- from here on"
ENTRIES = (
    ("loop", "turn"),
    ("loop", "woke"),
    ("loop", "ran"),
    ("scheduler", "servable"),
    ("manager", "tally"),
    ("manager", "reads"),
    ("cost", "step_as"),
)
FIELDS = (*REQUEST, *(f"{name}_{part}" for name in TIMES for part in "sa"))
"""Of a request, in the order in which they lie."""


class Program(NamedTuple):
    """A run's function, and where in its array things are."""

    run: Callable[[Any], int]
    fields: tuple[str, ...]  # `role_attribute`, from place 0 on; then come requests
    lists: tuple[tuple[str, str], ...]  # role and attribute
    scratch: tuple[str, ...]


class Source(NamedTuple):
    text: str
    fields: tuple[str, ...]
    lists: tuple[tuple[str, str], ...]
    scratch: tuple[str, ...]


@cache
def lowered(manager: type) -> Source:
    """The functions of a run under that kind of manager, as text."""
    classes = {"loop": Loop, "scheduler": Scheduler, "manager": manager}
    classes |= {"request": Sequence, "pool": Pool, "cost": Roofline, "seen": SaturatingSum}
    lowering = Lowering(classes)
    for role, method in ENTRIES:
        lowering.need(role, method)
    own = [inspect.getsource(module) for module in (lists, given)]
    text = "\n\n".join([*(each[each.index(BEGINNING) :] for each in own), lowering.text()])
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


def is_lowered(manager: type) -> bool:
    """Whether every line that a run may come to has a rule."""
    try:
        lowered(manager)
    except NotLowered:
        return False
    return True


def program(manager: type, compiled: bool = True) -> Program:
    """The program for a kind of manager: machine code, or the same text under Python."""
    source = lowered(manager)
    module = _compiled(source.text) if compiled else _interpreted(source.text)
    return Program(module.run, *source[1:])


def is_warm(manager: type) -> bool:
    """Whether there is machine code from an earlier run."""
    path = _place(_decorated(lowered(manager).text))
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
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_text(text)
        unfinished.replace(path)
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
