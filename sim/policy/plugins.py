"""Policies and cost models of others: installed packages by entry point, single files by path.

One that can't be loaded is a note in one line, and hides no other.
"""

import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from inspect import getmembers, isabstract, isclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sim.policy.spec import Policy, spec_name

GROUP = "kvtwin.policies"


class Found(NamedTuple):
    """Policies by name, and a line for each plug-in that brings none."""

    policies: dict[str, type[Policy]]
    notes: list[str]


files = Found({}, [])
"""What `load_file` has loaded into this process."""

costs: dict[str, type[Any]] = {}
"""Of the same files, the options of cost models by name (`sim.run.costs`)."""

told: set[str] = set()
"""Notes that the user has read: errors don't repeat them."""

modules: list[ModuleType] = []
"""Of those files: other processes must be sent their code, as they can't import it."""


@cache
def installed() -> Found:
    """The policies of installed packages."""
    expected = "a subclass of sim.policy.spec's Placement, Retention, Storage, Sharing or Policy"
    return Found(*load_group(GROUP, lambda kind: issubclass(kind, Policy), expected))


def load_group(
    group: str, fits: Callable[[type], bool], expected: str
) -> tuple[dict[str, type[Any]], list[str]]:
    """Classes by the names of the group's entry points, and a line for each that brings none."""
    kinds: dict[str, type[Any]] = {}
    notes: list[str] = []
    for point in entry_points(group=group):
        try:
            with redirect_stdout(sys.stderr):
                kind = point.load()
        except (Exception, SystemExit) as error:  # whatever a stranger's module raises
            notes.append(f"plug-in {point.name} ({point.value}): {_reason(error)}")
            continue
        if isinstance(kind, type) and fits(kind):
            kinds[point.name] = kind
        else:
            notes.append(f"plug-in {point.name} ({point.value}): expected {expected}")
    return kinds, notes


def load_file(path: Path) -> None:
    """Add the policies, and options of cost models, that a Python file defines.

    By their classes' names in snake case.
    """
    name = f"kvtwin_plugin_{path.stem}"
    try:
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError("expected a Python file")
        module = module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up there
        with redirect_stdout(sys.stderr):  # what it prints isn't an answer of ours
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever a stranger's file raises when it is run
        sys.modules.pop(name, None)
        files.notes.append(f"--plugin {path}: {_reason(error)}")
        return
    own = {
        spec_name(kind): kind
        for _, kind in getmembers(module, isclass)
        if kind.__module__ == name and not isabstract(kind)
    }
    kinds = {name: kind for name, kind in own.items() if issubclass(kind, Policy)}
    makers = {name: kind for name, kind in own.items() if makes_costs(kind) and name not in kinds}
    if not (kinds or makers):
        pages = "docs/adding-a-policy.md, docs/adding-a-cost-model.md"
        files.notes.append(f"--plugin {path}: defines no policy and no cost model; see {pages}")
    files.policies.update(kinds)
    costs.update(makers)
    modules.append(module)


def makes_costs(kind: type[Any]) -> bool:
    """Whether a class has what a cost model's options have."""
    return callable(getattr(kind, "model", None))


def found() -> Found:
    """All of them; a file's come before an installed package's of the same name."""
    packages = installed()
    return Found(packages.policies | files.policies, packages.notes + files.notes)


def _reason(error: Any) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
