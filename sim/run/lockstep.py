"""Data-parallel ranks in lockstep: engines of their own that take every step together.

vLLM's `--data-parallel-size N --enable-expert-parallel` on N GPUs: each rank has a scheduler and a
KV cache, and the router deals requests out as it does to replicas. But the experts are there once,
so while anybody has work all step: a rank without any computes a dummy batch, and takes what came
meanwhile when the step ends. What a step costs is `sim.cost.ranks`' concern.
"""

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, cast

import simpy

from sim.cost.base import RanksCost
from sim.cost.kernels.collectives import Collectives
from sim.cost.ranks import FixedRanks, RooflineRanks
from sim.engine.loop import Effects
from sim.model.geometry import Model
from sim.plan import Done, Execute, Sleep
from sim.run.costs import Costs, FixedCost
from sim.run.options import RunOptions
from sim.run.step_costs import kernel_table
from workloads.errors import InputError

if TYPE_CHECKING:
    from sim.run.replicas import Front
    from sim.run.simulation import Setup

MOST_RANKS = 1024

Effect = Execute | Sleep | None


def refuse_unlike(options: RunOptions, model: Model, costs: Costs) -> None:
    """Raise InputError, in one line, where ranks in lockstep aren't what such a run would be."""
    ranks = options.data_parallel
    refuse_ranks(ranks, model, options.tp)
    option = f"--data-parallel {ranks}"
    if ranks == 1:
        return
    if options.replicas > 1:
        raise InputError(f"{option}: replicas of such engines are not modelled, expected one")
    if costs.table is not None:
        raise InputError(f"{option}: step times are of one engine alone, expected another --cost")
    if costs.own is not None and not isinstance(costs.own, FixedCost):
        raise InputError(
            f"{option}: a cost model of somebody's own says nothing of several ranks' step; "
            "expected roofline, table or fixed"
        )


def refuse_ranks(ranks: int, model: Model, tp: int) -> None:
    """Raise InputError where so many ranks can't share the model's experts."""
    option = f"--data-parallel {ranks}"
    if not 1 <= ranks <= MOST_RANKS:
        raise InputError(f"{option}: expected a whole number from 1 to {MOST_RANKS:,}")
    if ranks == 1:
        return
    if not model.weights.experts:
        raise InputError(
            f"{option}: {model.name} has no experts, so that its ranks wait for nobody; "
            f"expected --replicas {ranks}"
        )
    _refuse_fractions(option, model, ranks)
    if tp > 1:
        raise InputError(f"{option}: ranks of several GPUs are not modelled, expected --tp 1")


def _refuse_fractions(option: str, model: Model, ranks: int) -> None:
    """Each rank must hold as many whole experts as any other."""
    experts = model.weights.expert_count
    if not experts % ranks:  # 0 of them: a model put together by hand doesn't say
        return
    divisors = [number for number in range(1, experts + 1) if experts % number == 0]
    below = [number for number in divisors if number < ranks][-1:]
    above = [number for number in divisors if ranks < number <= MOST_RANKS][:1]
    near = " or ".join(map(str, below + above))
    raise InputError(
        f"{option}: ranks of unequal numbers of experts are not modelled; expected a number that "
        f"divides {model.name}'s {experts} experts, such as {near}"
    )


def ranks_cost(setup: "Setup") -> RanksCost:
    """A fresh cost model of all ranks' steps."""
    ranks, model, device = setup.replicas, setup.model, setup.device
    if isinstance(setup.own_cost, FixedCost):
        return FixedRanks(setup.own_cost.seconds, "given by --cost fixed")
    if setup.profile is None:
        return RooflineRanks(model, device, ranks, setup.engine.kernels.padded_to)
    from sim.cost.kernels.ranks import TableRanks  # late: few runs have measurements

    collectives = Collectives(model, device, setup.profile.meta.get("all_reduce"))
    return TableRanks(kernel_table(setup, setup.profile), collectives, ranks)


def lockstep(
    env: simpy.Environment,
    engines: Sequence[Effects],
    cost: RanksCost,
    front: "Front",
    byte_as: int,
) -> Generator[simpy.Event, None, None]:
    """All ranks in simulated time, step by step. `byte_as`: of each one's own way to the host."""
    front.busy = 1  # who is asked first may work while the others are asked
    doing: list[Effect] = [next(engine, None) for engine in engines]
    _wake(engines, doing, front, 0)
    while any(doing):
        now = int(env.now)
        plans = [effect.plan if isinstance(effect, Execute) else None for effect in doing]
        front.busy = int(any(plans) or not front.nobody_comes())
        if any(plans):
            moved = max(p.swap_out_bytes + p.swap_in_bytes for p in plans if p is not None)
            took = moved * byte_as + cost.together_as(plans)
        else:
            took = min(cast("Sleep", effect).until_as for effect in doing if effect) - now
        yield env.timeout(took)
        now += took
        for rank, effect in enumerate(doing):
            if isinstance(effect, Execute):
                doing[rank] = _after(engines[rank], Done(now, 1, took))
            elif effect is not None and effect.until_as <= now:
                doing[rank] = _after(engines[rank], Done(now))
        _wake(engines, doing, front, now)


def _wake(engines: Sequence[Effects], doing: list[Effect], front: "Front", now: int) -> None:
    """Who sleeps but was dealt a request at this very instant plans with the others."""
    while woken := [
        rank for rank, effect in enumerate(doing) if isinstance(effect, Sleep) and front.has(rank)
    ]:
        for rank in woken:
            doing[rank] = _after(engines[rank], Done(now))


def _after(engine: Effects, done: Done) -> Effect:
    """What the engine does next; None when it has ended."""
    try:
        return engine.send(done)
    except StopIteration:
        return None
