"""What a manager may answer, in one line where it can't be true.

Asked of every policy by `laws`, and in runs of those in which strangers had a hand (`watched`).
"""

from collections.abc import Sequence as Items
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.policy.manager import Manager, Memory, Pool
from sim.policy.spec import Policy, parts_of
from workloads.errors import InputError

KINDS = (*(f"memory().{name}" for name in Memory._fields), "cached_bytes()")
READS = ("reads() bytes", "reads() growth")


class Untrue(InputError):
    """An answer that can't be true. Whoever asked adds the policy's name."""


def of_the_house(part: object) -> bool:
    """Whether its class ships with this package."""
    return type(part).__module__.startswith("sim.")


def ours(policy: Policy) -> bool:
    """Whether no stranger has a part in the policy."""
    return all(map(of_the_house, parts_of(policy)))


def fresh(policy: Policy, pool: Pool) -> Manager:
    """The policy's manager; a stranger's is watched.

    Raises Untrue unless that is one over all of the pool, and has a longest request.
    """
    manager = policy.manager(pool)
    if ours(policy):
        return manager
    if not isinstance(manager, Manager):
        raise Untrue(
            f"its manager is a {type(manager).__name__}; expected a Manager (sim/policy/manager.py)"
        )
    expect_count("longest()", manager.longest())
    if manager.pool.capacity_bytes != pool.capacity_bytes:
        raise Untrue(
            f"its manager has a pool of {manager.pool.capacity_bytes:,} B; expected all "
            f"{pool.capacity_bytes:,} B of the one that it was given"
        )
    manager.watched = True
    return manager


def expect_count(what: str, value: object, least: int = 0, most: int | None = None) -> None:
    """Raises Untrue unless it is an int within the bounds: numpy's have an end, and overflow."""
    if type(value) is not int or value < least or (most is not None and value > most):
        upto = "or more" if most is None else f"to {most}"
        raise Untrue(f"{what} is {value!r}; expected a whole number (int), {least} {upto}")


def expect_yes_or_no(what: str, value: object) -> None:
    """Raises Untrue for what only counts as true or false."""
    if not isinstance(value, bool | np.bool_):
        raise Untrue(f"{what} is {value!r}; expected True or False")


def memory_of(manager: Manager) -> Memory:
    """What `memory` says; if it is watched, raises Untrue as `check_memory` does."""
    memory = manager.memory()
    if manager.watched:
        check_memory(manager, memory)
    return memory


def check_memory(manager: Manager, memory: Memory) -> None:
    """Raises Untrue unless the parts are whole and sum to the manager's pool."""
    if not (isinstance(memory, tuple) and len(memory) == len(Memory._fields)):
        raise Untrue(f"memory() is {memory!r}; expected a Memory")
    if {type(size) for size in memory} != {int} or min(memory) < 0:
        for name, size in zip(KINDS, memory, strict=False):
            expect_count(name, size)
    capacity = manager.pool.capacity_bytes
    if sum(memory) != capacity:
        raise Untrue(f"memory() sums to {sum(memory):,} B; expected the pool's {capacity:,} B")


def check_reads(manager: Manager) -> None:
    """Raises Untrue unless `reads` are two whole numbers."""
    reads = manager.reads()
    if not (isinstance(reads, tuple) and len(reads) == 2):
        raise Untrue(f"reads() is {reads!r}; expected bytes and their growth")
    for name, size in zip(READS, reads, strict=True):
        expect_count(name, size)


def checked(manager: Manager) -> tuple[Memory, int, tuple[int, ...]]:
    """`memory`, `cached_bytes` and `tally`. Raises Untrue for any of these, and for `reads`."""
    check_memory(manager, memory := manager.memory())
    expect_count("cached_bytes()", cached := manager.cached_bytes())
    check_reads(manager)
    if type(manager).tally is Manager.tally:
        return memory, cached, (*memory, cached)
    tally = manager.tally()
    if not isinstance(tally, tuple) or {type(count) for count in tally} - {int}:
        raise Untrue(f"tally() is {tally!r}; expected a tuple of whole numbers (int)")
    return memory, cached, tally


def checked_tally(manager: Manager) -> tuple[int, ...]:
    """`tally`, where all that the manager says of its memory can be true. Raises Untrue."""
    return checked(manager)[2]


def check_columns(columns: Items[Any], capacity_bytes: int) -> None:
    """Of whole columns of `uses`, or single numbers for all rows. Raises Untrue as for one."""
    whole: list[NDArray[np.int64]] = []
    for kind, given in zip(KINDS, columns, strict=True):
        column = np.asarray(given)
        if column.dtype.kind not in "iu":
            raise Untrue(f"uses() has {kind} as {column.dtype}; expected whole numbers")
        if column.size and column.min() < 0:
            raise Untrue(f"uses() has {kind} at {column.min():,}; expected 0 or more")
        whole.append(column)
    total = np.atleast_1d(sum(whole[:-1]))
    wrong = total[total != capacity_bytes]
    if len(wrong):
        raise Untrue(f"uses() sums to {wrong[0]:,} B; expected the pool's {capacity_bytes:,} B")
