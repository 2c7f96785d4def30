"""Cost models by name, as policies are: `roofline`, `table:profile=FILE`, a file of step times.

A third-party package adds its own through the entry-point group `kvtwin.costs`, a file by
`sim.policy.plugins.load_file`: frozen dataclasses of options with a method `model(setup)`, such as
`FixedCost` here (docs/adding-a-cost-model.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sim.cost.base import StepCost
from sim.cost.roofline import FixedStep
from sim.hardware import Device
from sim.model.geometry import Model
from sim.policy import plugins
from sim.policy.registry import build
from workloads.errors import InputError
from workloads.given import check_fields
from workloads.spec import key_values, suggestion

if TYPE_CHECKING:
    from sim.cost.kernels.profile import Profile
    from sim.cost.steps.table import CostTable
    from sim.run.options import RunOptions
    from sim.run.simulation import Setup

GROUP = "kvtwin.costs"


class CostSpec(Protocol):
    """Options of a cost model."""

    def model(self, setup: "Setup") -> StepCost:
        """A fresh cost model for one run."""
        ...


@dataclass(frozen=True)
class FixedCost:
    """Every step takes so many `seconds`: what policies do, apart from what steps cost."""

    seconds: float = 0.03

    def __post_init__(self) -> None:
        check_fields(self, prefix="fixed: ")
        if not 0 < self.seconds <= 1e6:
            raise InputError(f"fixed: seconds={self.seconds}, expected more than 0, at most 1e6")

    def model(self, setup: "Setup") -> StepCost:
        """A fresh cost model for one run."""
        return FixedStep(self.seconds, "given by --cost fixed")


BUILT_IN: dict[str, type[CostSpec]] = {"fixed": FixedCost}
NAMES = ("roofline", "table", *BUILT_IN)


@dataclass(frozen=True)
class Costs:
    """What a run's times come from; the roofline where nothing is set."""

    kernels: "Callable[[Device, Model], Profile] | None" = None  # of that model on that device
    table: "CostTable | None" = None
    own: CostSpec | None = None


def find_costs(options: "RunOptions") -> Costs:
    """What `cost` and `profile` say together. Raises InputError where they contradict each other
    or name nothing."""
    cost, profile = options.cost, options.profile
    if cost is not None and not isinstance(cost, str | Path):
        from sim.cost.steps.table import CostTable  # late: few runs have measurements

        return Costs(table=cost) if isinstance(cost, CostTable) else Costs(own=cost)
    text = "" if cost is None else str(cost)
    if cost is not None and not text.strip():
        raise InputError("--cost: is empty, expected roofline, table or a file of kvtwin calibrate")
    name, given = text.partition(":")[0], dict[str, str]()
    kinds = {} if cost is None else own_costs()
    if name in ("roofline", "table", *kinds):
        name, given = key_values(text, f"--cost {cost}")
    if name == "roofline" and given:
        raise InputError(f"--cost {cost}: roofline takes no options")
    if name == "table" or (cost is None and profile is not None):
        for key in given.keys() - {"profile"}:
            raise InputError(f"--cost {cost}: table has no option {key!r}, expected profile")
        if profile is not None and given:
            raise InputError(f"--cost {cost}: names a profile, expected no --profile beside it")
        wanted = profile if profile is not None else given.get("profile")
        return Costs(kernels=lambda device, model: _profile(wanted, device, model, options.tp))
    if profile is not None:
        raise InputError(f"--cost {cost}: reads no --profile, expected --cost table")
    if cost is None or name == "roofline":
        return Costs()
    if name in kinds:
        return Costs(own=build(kinds[name], name, given, f"--cost {cost}"))
    from sim.cost.steps.table import read_table  # late: few runs have measurements

    try:
        return Costs(
            table=read_table(Path(str(cost)), _instead(name, {"roofline", "table", *kinds}))
        )
    except InputError as error:
        untold = [note for note in cost_notes() if note not in plugins.told]
        raise InputError("; ".join([str(error), *untold])) from None


def _instead(name: str, known: set[str]) -> str:
    """What may have been meant by what is no file: a name without a dot or slash was no path."""
    if name == Path(name).stem and (said := suggestion(name, known)).startswith("did you mean"):
        return said
    return f"expected {', '.join(sorted(known))} or a file of kvtwin calibrate"


def own_costs() -> dict[str, type[CostSpec]]:
    """Cost models beyond kernels and step times by name; a file's come before a package's."""
    return {**_installed()[0], **plugins.costs, **BUILT_IN}


def cost_notes() -> list[str]:
    """A line for each plug-in that brings no cost model, or a name that is built in."""
    installed, notes = _installed()
    found = installed | plugins.costs
    taken = [
        f"plug-in {name}: the name is built in, and stays so" for name in NAMES if name in found
    ]
    return notes + taken


@cache
def _installed() -> tuple[dict[str, type[CostSpec]], list[str]]:
    expected = "a class of options with a method model(setup)"
    return plugins.load_group(GROUP, plugins.makes_costs, expected)


def _profile(
    profile: "Profile | str | Path | None", device: Device, model: Model, tp: int
) -> "Profile":
    from sim.cost.kernels.profile import find_profile, profile_for  # late: few runs read one

    if isinstance(profile, str | Path):
        return find_profile(str(profile))
    found = profile or profile_for(device.name, model.name, tp)
    if found is None:
        raise InputError(
            f"--cost table: no shipped profile of {model.name} on {device.name} with tp {tp}; "
            "expected --profile (see: kvtwin list profiles)"
        )
    return found
