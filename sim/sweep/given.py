"""What a command line says of a grid: any option of a run, each as one value, a list or a range."""

import ast
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, make_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sim.run.options import EngineOptions, RunOptions
from sim.sweep.grid import Grid, Value, make_grid, read_values
from workloads.errors import InputError


def _described() -> dict[str, str]:
    """What the help of `kvtwin simulate` says of each option: the text below it in RunOptions."""
    body: list[ast.stmt] = []
    for kind in (EngineOptions, RunOptions):
        (options,) = ast.parse(inspect.getsource(kind)).body
        assert isinstance(options, ast.ClassDef)
        body += options.body
    found = {"policy": "A cache policy with its options; give several to compare."}
    for field, text in pairwise(body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(said))),
            ):
                found[name] = " ".join(said.split())
    return found


if TYPE_CHECKING:
    GridOptions = Any
else:
    _SAID = _described()
    GridOptions = make_dataclass(
        "GridOptions",
        [
            (
                field.name,
                Annotated[list[str] | None, Parameter(negative="", help=_SAID.get(field.name))],
                None,
            )
            for field in fields(RunOptions)
        ],
        namespace={"__module__": __name__},  # cyclopts takes those of `types` for built in
        frozen=True,
    )
    """The names of a run's options; each may be given more than once."""

Given = Annotated[GridOptions | None, Parameter(name="*")]


def grid_of(given: GridOptions | None, settings: list[str] | None) -> Grid:
    """The grid of options given by their own names and by `--set NAME=VALUES`.

    Raises InputError in one line.
    """
    texts = {name: list(value) for name, value in vars(given or GridOptions()).items() if value}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        name = name.strip().replace("-", "_")
        if not (equals and name and value):
            raise InputError(f"--set {setting}: expected NAME=VALUES, such as block_size=16,32")
        texts.setdefault(name, []).append(value)
    return grid_from({name: read_values(name, value) for name, value in texts.items()}, "--")


def grid_from(axes: Mapping[str, Sequence[Value]], sign: str = "") -> Grid:
    """The grid of values by option. What has one value is no axis, and policies vary slowest.

    `sign` stands before an option's name where one is missing. Raises InputError in one line.
    """
    names = {field.name for field in fields(RunOptions)}
    single = {
        name: values[0] for name, values in axes.items() if len(values) == 1 and name in names
    }
    needed = [
        field.name
        for field in fields(RunOptions)
        if field.default is field.default_factory is MISSING
    ]
    for name in needed:
        if name not in axes:
            shown = name.replace("_", "-") if sign else name
            raise InputError(f"{sign}{shown}: missing")
        single.setdefault(name, axes[name][0])
    varied = {
        name: values for name, values in axes.items() if name not in single or len(values) > 1
    }
    ordered = sorted(varied, key=lambda name: name != "policy")  # policies vary slowest
    return make_grid(RunOptions(**single), {name: varied[name] for name in ordered})
