"""The cost model of a run's steps: a stranger's, measured steps or kernels, or the roofline."""

from typing import TYPE_CHECKING

from sim.cost.base import StepCost
from sim.cost.roofline import Roofline
from sim.policy.spec import format_under
from sim.run.seam import own_cost, told_by

if TYPE_CHECKING:
    from sim.cost.kernels.model import KernelTable
    from sim.cost.kernels.profile import Profile
    from sim.run.simulation import Setup


def step_cost(setup: "Setup") -> StepCost:
    """A fresh one for one engine."""
    if setup.own_cost is not None:
        return own_cost(setup.own_cost, setup)
    if setup.cost_table is not None:
        from sim.cost.steps.model import Calibrated  # late: few runs have measurements

        token_bytes = setup.manager().pool.token_bytes
        return Calibrated(
            setup.cost_table, setup.model, setup.policy, setup.ledger.kv.name, token_bytes
        )
    if setup.profile is None:
        return Roofline(setup.model, setup.device, setup.tp)
    return kernel_table(setup, setup.profile)


def kernel_table(setup: "Setup", profile: "Profile") -> "KernelTable":
    """A fresh cost model of one engine over those measured kernels."""
    from sim.cost.kernels.model import KernelTable  # late: few runs have measurements

    with told_by(setup.policy, setup.label):
        kv = format_under(setup.policy, setup.ledger.kv)
    return KernelTable(
        setup.model,
        setup.device,
        profile,
        tp=setup.tp,
        token_bytes=setup.pool.token_bytes,
        kv=kv,
        rules=setup.engine.kernels,
    )
