"""Strangers' policies are watched in every run, and every check asks the same of an answer."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from kvtwin import check_policy, simulate, size, sweep
from sim.commands.compare_policies import compare_policies
from sim.memory.approaches import compare
from sim.model.layers import KvFormat
from sim.policy import plugins
from sim.policy.answers import Untrue
from sim.policy.chunked import Chunked
from sim.policy.counting.pages import Pages
from sim.policy.manager import Manager, Memory, Pool
from sim.policy.paging import Paging
from sim.policy.registry import BUILT_IN
from sim.policy.spec import Placement, Policy, Retained, Storage
from sim.run.compiled.execute import hindrance, run_compiled
from sim.run.form import _job
from sim.run.seam import check_manager
from sim.run.simulation import execute, prepare
from sim.sequence import Sequence
from sim.sweep.hopeless import execute_until_lost
from workloads import read_trace
from workloads.errors import InputError
from workloads.transform import first

FEW = first(read_trace("azure-2023-conv"), 3)
LLAMA = {"model": "llama-2-7b", "gpu": "a100-80gb"}


def odd(base: type[Manager] = Pages, **changes: Any) -> Policy:
    """A policy of blocks of 4 tokens whose manager has these methods in place of its own."""
    kind = type("Changed", (base,), changes) if changes else base

    @dataclass(frozen=True)
    class Odd(Placement):
        def place(self, pool: Pool, retained: Retained) -> Manager:
            return kind(pool, 4)  # type: ignore[call-arg]

    return Odd()


def later(change: Callable[[Memory], Any]) -> Callable[[Pages], Any]:
    """`memory` that is right for the two-token trial, and wrong from the fourth step on."""
    return lambda self: change(Pages.memory(self)) if self.tick > 3 else Pages.memory(self)


def by_column(self: Pages, tally: tuple[Any, ...]) -> tuple[Any, ...]:
    """Right for one tally, a byte short for columns of them: what a table has."""
    live, *others = Pages.uses(self, tally)
    return (live - isinstance(tally[0], np.ndarray), *others)


LATE = [
    ({"memory": later(lambda m: m._replace(live=m.live - 1))}, r"memory\(\) sums to [\d,]+ B; "),
    (
        {"memory": later(lambda m: m._replace(live=m.live + m.free + 1, free=-1))},
        r"memory\(\)\.free is -1; expected a whole number \(int\), 0 or more$",
    ),
    ({"memory": later(lambda m: m._replace(live=float(m.live)))}, r"memory\(\)\.live is \d+\.0; "),
    ({"memory": later(lambda m: 5)}, r"memory\(\) is 5; expected a Memory$"),
    ({"tally": lambda self: list(Pages.tally(self))}, r"tally\(\) is \["),
    ({"cached_bytes": lambda self: -1 if self.tick > 3 else 0}, r"cached_bytes\(\) is -1; "),
    ({"uses": by_column}, r"uses\(\) sums to [\d,]+ B; expected the pool's [\d,]+ B$"),
]


@pytest.mark.parametrize(("changes", "said"), LATE)
def test_what_a_run_records_is_true_on_every_path(changes: dict[str, Any], said: str) -> None:
    policy = odd(**changes)
    with pytest.raises(InputError, match=f"^--policy odd: {said}"):
        simulate(FEW, **LLAMA, policy=policy)
    with pytest.raises(InputError, match=f"^--policy odd: {said}"):
        execute_until_lost(prepare(FEW, **LLAMA, policy=policy, slo="ttft_p99=20s"))
    with pytest.raises(InputError, match=f"^--policy odd: {said}"):
        simulate(FEW, **LLAMA, policy=policy, replicas=2)


def test_a_sweep_has_the_reason_in_the_row() -> None:
    changes, _ = LATE[0]
    (mine, paging) = sweep(FEW, **LLAMA, policy=[odd(**changes), "paging"], jobs=1)["error"]
    assert mine.startswith("--policy odd: memory() sums to ")
    assert not isinstance(paging, str)


def test_more_than_there_is_room_for() -> None:
    """Admitted whatever there is: requests of 374 and 396 tokens in room for 500."""
    yes = {"can_admit": lambda self, seq: True, "can_extend": lambda self, seq, tokens: True}
    setup = prepare(FEW, **LLAMA, policy=odd(**yes))
    pool = replace(setup.pool, capacity_bytes=500 * setup.pool.token_bytes)
    at_once = replace(setup.trace, arrival_s=np.zeros(len(FEW)))
    assert sorted(setup.trace.prompt_tokens.tolist())[:2] == [374, 396]
    with pytest.raises(InputError, match=r"^--policy odd: memory\(\)\.free is -\d+; expected"):
        execute(replace(setup, pool=pool, trace=at_once))


def test_a_compiled_run_is_watched_too() -> None:
    """A manager that ships, in which a stranger counts more blocks than the pool has."""

    @dataclass(frozen=True)
    class More(Placement):
        blocks: int

        def place(self, pool: Pool, retained: Retained) -> Manager:
            manager = Pages(pool, 4)
            manager.blocks += self.blocks
            manager.free += self.blocks
            return manager

    for blocks in (0, 1000):
        setup = prepare(FEW, **LLAMA, policy=More(blocks))
        job = _job(setup, setup.cost())
        assert hindrance(job) is None
        if not blocks:
            assert run_compiled(job, compiled=False).steps["live_bytes"].max() > 0
            continue
        with pytest.raises(Untrue, match=r"^uses\(\) has memory\(\)\.external at -[\d,]+; "):
            run_compiled(job, compiled=False)


def test_a_pool_that_grows() -> None:
    @dataclass(frozen=True)
    class Twice(Storage):
        @property
        def format(self) -> KvFormat:
            return KvFormat("fp16", 16)

        def apply(self, pool: Pool) -> Pool:
            return replace(pool, capacity_bytes=2 * pool.capacity_bytes)

    with pytest.raises(InputError, match=r"^--policy paging\+twice: its manager has a pool of "):
        simulate(FEW, **LLAMA, policy=Paging() + Twice())


def test_only_strangers_are_watched() -> None:
    assert not any(
        prepare(FEW, **LLAMA, policy=name).manager().watched
        for name, kind in BUILT_IN.items()
        if issubclass(kind, Placement)
    )
    assert prepare(FEW, **LLAMA, policy=odd()).manager().watched


def test_sizes_and_comparisons_ask_for_what_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong above the trial's two tokens, in what is then said of a full pool or a request."""
    many = {"memory": lambda self: Pages.memory(self)._replace(free=0, metadata=7)}
    unless_full = {
        "memory": lambda self: (
            many["memory"](self) if self.live_tokens() > 9 else Pages.memory(self)
        )
    }
    with pytest.raises(InputError, match=r"^--policy odd: memory\(\) sums to "):
        size(**LLAMA, context=10, policy=odd(**unless_full))
    with pytest.raises(Untrue, match=r"^memory\(\) sums to "):
        compare(odd(**unless_full), "odd", "", Pool(1000, 10, 50), [(10, 5)])
    made = type(odd(longest=lambda self: "many"))
    monkeypatch.setitem(plugins.files.policies, "odd", made)
    with pytest.raises(InputError, match=r"^--policy odd: longest\(\) is 'many'; expected a whole"):
        compare_policies("azure-2023-conv", **LLAMA, policy=("odd",), first=2)


def lets_go(self: Pages, seq: Sequence) -> None:
    """Without super()."""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"longest": lambda self: 40.0}, r"longest\(\) is 40\.0; expected a whole number \(int\)"),
        ({"longest": lambda self: np.int64(40)}, r"longest\(\) is np\.int64\(40\); expected a who"),
        ({"can_admit": lambda self, seq: "yes"}, r"can_admit\(\) is 'yes'; expected True or False"),
        ({"can_admit": lambda self, seq: None}, r"can_admit\(\) is None; expected True or False"),
        (
            {"growable": lambda self, limit: 1.0},
            r"growable\(\d+\) is 1\.0; expected a whole number",
        ),
        ({"memory": lambda self: 5}, r"memory\(\) is 5; expected a Memory"),
        ({"reads": lambda self: (0, -1)}, r"reads\(\) growth is -1; expected a whole number"),
        ({"__init__": lambda self, *given: sys.exit(0)}, r"SystemExit: 0 \(test_watched\.py, line"),
    ],
)
def test_the_trial_and_the_laws_agree(changes: dict[str, Any], said: str) -> None:
    policy = odd(**changes)
    with pytest.raises(InputError, match=f"^--policy odd: {said}"):
        check_manager(policy, Pool(1000, 10, 50), "odd")
    with pytest.raises(AssertionError, match=f"^odd: {said}"):
        check_policy(policy, 20)


def test_what_numpy_says_no_to_is_a_no() -> None:
    policy = odd(can_admit=lambda self, seq: np.bool_(Pages.can_admit(self, seq)))
    check_manager(policy, Pool(1000, 10, 50), "odd")
    check_policy(policy, 20)


def test_a_command_that_forgets_what_it_overrides() -> None:
    with pytest.raises(InputError) as raised:
        simulate(FEW, **LLAMA, policy=odd(release=lets_go))
    assert str(raised.value) == (
        "--policy odd: after release() prefilled, context, decoding are (0, 3, 1); expected "
        "(0, 0, 0) (is super().release() missing?)"
    )


@pytest.mark.parametrize("histories", [0, -1])
def test_no_histories_check_nothing(histories: int) -> None:
    with pytest.raises(InputError, match=f"^check_policy: histories={histories}, expected at leas"):
        check_policy("paging", histories)


def test_pieces_larger_than_the_pools_of_the_check() -> None:
    """Its smallest pool has room for 41 tokens of 256 B, and 7 B."""
    with pytest.raises(InputError) as raised:
        check_policy(Chunked())
    assert str(raised.value) == (
        "check_policy: chunked refuses its pools, which have room for 41 to 160 tokens so that "
        f"they are often full: chunked: one block of 512 tokens takes {512 * 256} bytes, but the "
        f"KV budget is {41 * 256 + 7}; expected smaller chunk_tokens"
    )
    check_policy(Chunked(16), 20)
