"""What others' policies and cost models return wrongly is one line with their name."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kvtwin import size
from sim.commands.compare_policies import compare_policies
from sim.cost.base import StepCost
from sim.cost.roofline import FixedStep, Roofline
from sim.hardware import find_device
from sim.memory.sizing import fill
from sim.model.layers import KvFormat
from sim.model.presets import find_model
from sim.plan import StepPlan
from sim.policy import plugins
from sim.policy.counting.pages import Pages
from sim.policy.manager import Manager, Memory, Pool
from sim.policy.registry import BUILT_IN, parse_policy
from sim.policy.spec import KEEP_ALL, Placement, Retained, Storage
from sim.run.checks import find_unserved
from sim.run.seam import check_cost, check_manager
from sim.run.simulation import Setup, execute, prepare, start
from sim.sequence import Sequence
from sim.sweep.hopeless import execute_until_lost
from sim.sweep.limits_told import binding
from workloads import read_trace
from workloads.errors import InputError
from workloads.transform import first

POOL = Pool(1000, 10, 50)
FEW = first(read_trace("azure-2023-conv"), 3)
LLAMA = {"model": "llama-2-7b", "gpu": "a100-80gb"}


def strange(**changes: Any) -> type[Placement]:
    """A policy of blocks of 4 tokens whose manager has these methods in place of its own."""
    kind = type("Odd", (Pages,), changes)

    @dataclass(frozen=True)
    class Strange(Placement):
        def place(self, pool: Pool, retained: Retained) -> Manager:
            assert retained == KEEP_ALL
            return kind(pool, 4)  # type: ignore[no-any-return]

    return Strange


@pytest.fixture
def plug_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Makes a class the policy `odd`."""
    return lambda kind: monkeypatch.setitem(plugins.files.policies, "odd", kind)


def test_what_ships_passes() -> None:
    pool = prepare(FEW, **LLAMA).pool
    for name, kind in BUILT_IN.items():
        spec = name if issubclass(kind, Placement) else f"paging+{name}"
        check_manager(parse_policy(spec), pool, spec)
    check_manager(strange()(), POOL, "odd")
    check_cost(Roofline(find_model("llama-2-7b"), find_device("h200")), 524_288)
    check_cost(FixedStep(0.001, "given"), 10)


def memory(self: Pages) -> Memory:
    live = self.live_tokens() * 10
    return Memory(live, 0, 0, 0, 0, 1000 - live)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"memory": lambda self: memory(self)._replace(metadata=7)}, r"memory\(\) sums to 1,007 B"),
        (
            {"memory": lambda self: memory(self)._replace(free=2000, external=-1000)},
            r"memory\(\).external is -1000; expected a whole number \(int\), 0 or more",
        ),
        ({"memory": lambda self: memory(self)._replace(live=1.5)}, r"memory\(\).live is 1.5"),
        ({"memory": lambda self: None}, r"memory\(\) is None; expected a Memory"),
        ({"reads": lambda self: (-5, 0)}, r"reads\(\) bytes is -5"),
        ({"reads": lambda self: (5, 0.5)}, r"reads\(\) growth is 0.5"),
        ({"reads": lambda self: None}, r"reads\(\) is None; expected bytes and their growth"),
        (
            {"longest": lambda self: 0},
            r"longest\(\) is 0; expected a whole number \(int\), 1 or more",
        ),
        ({"growable": lambda self, limit: 9}, r"growable\(1\) is 9; .* 0 to 1"),
        ({"admit": lambda self, seq: 1 / 0}, r"ZeroDivisionError: .* \(test_seam.py, line \d+\)"),
        ({"grow": lambda self, steps: sys.exit(9)}, r"SystemExit: 9 \(test_seam.py, line \d+\)"),
    ],
)
def test_answers_that_cant_be_true(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^--policy odd: {said}") as raised:
        check_manager(strange(**changes)(), POOL, "odd")
    assert "\n" not in str(raised.value)


def test_a_policy_that_makes_no_manager(plug_in: Callable[[type], None]) -> None:
    @dataclass(frozen=True)
    class Empty(Placement):
        def place(self, pool: Pool, retained: Retained) -> Manager:
            return None  # type: ignore[return-value]

    plug_in(Empty)
    with pytest.raises(InputError, match="--policy odd: its manager is a NoneType; expected a Man"):
        prepare(FEW, **LLAMA, policy="odd")


@pytest.mark.parametrize(
    ("longest", "said"),
    [
        (lambda self: "9", r"longest\(\) is '9'; expected a whole number"),
        (lambda self: None, r"longest\(\) is None; expected a whole number"),
        (lambda self: 1 / 0, r"ZeroDivisionError: .* \(test_seam.py, line \d+\)"),
    ],
)
def test_the_longest_request_is_asked_for_first(
    plug_in: Callable[[type], None], longest: Callable[[Pages], Any], said: str
) -> None:
    """How often to sample depends on it, before the short history is tried."""
    plug_in(strange(longest=longest))
    with pytest.raises(InputError, match=f"^--policy odd: {said}"):
        prepare(FEW, **LLAMA, policy="odd")


def test_what_a_policy_prints_leaves_stdout_alone(
    plug_in: Callable[[type], None], capsys: pytest.CaptureFixture[str]
) -> None:
    plug_in(strange(longest=lambda self: print("hello") or 1000))
    execute(prepare(FEW, **LLAMA, policy="odd"))
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "hello" in printed.err


def test_a_policy_that_cant_be_made(plug_in: Callable[[type], None]) -> None:
    @dataclass(frozen=True)
    class Needing(Placement):
        share: float

        def place(self, pool: Pool, retained: Retained) -> Manager:
            return Pages(pool, 4)

    plug_in(Needing)
    with pytest.raises(InputError, match=r"--policy odd: expected odd:share=\.\.\."):
        parse_policy("odd")
    assert parse_policy("odd:share=0.5").share == 0.5  # type: ignore[attr-defined]

    class Bare(Placement):
        share: float = 1.0

        def place(self, pool: Pool, retained: Retained) -> Manager:
            return Pages(pool, 4)

    plug_in(Bare)
    with pytest.raises(InputError, match=r"odd takes no options \(is @dataclass missing\?\)$"):
        parse_policy("odd:share=0.5")

    @dataclass(frozen=True)
    class Raising(Placement):
        share: float = 1.0

        def __post_init__(self) -> None:
            raise KeyError("no such share")

        def place(self, pool: Pool, retained: Retained) -> Manager:
            return Pages(pool, 4)

    plug_in(Raising)
    for spec in ("odd", "odd:share=0.5"):
        with pytest.raises(InputError, match=r"--policy odd.*: odd: KeyError: 'no such share'"):
            parse_policy(spec)


def test_one_that_breaks_in_a_run_is_named(plug_in: Callable[[type], None]) -> None:
    """It passes the short history, and forgets how to prefill a prompt of more than 100 tokens."""

    def extend(self: Pages, seq: Sequence, tokens: int) -> None:
        assert tokens < 100, "too long"
        Pages.extend(self, seq, tokens)

    plug_in(strange(extend=extend))
    setup = prepare(FEW, **LLAMA, policy="odd")
    check_manager(setup.policy, setup.pool, "odd")
    with pytest.raises(InputError, match=r"--policy odd: AssertionError: too long .*test_seam.py"):
        execute(setup)


def fails(self: Pages, *given: Any) -> Any:
    raise KeyError("gone")


GONE = r"^--policy odd: KeyError: 'gone' \(test_seam.py, line \d+\)$"


def late(calls: int) -> type[Placement]:
    """A policy that makes so many managers and then none."""
    made = strange()

    @dataclass(frozen=True)
    class Late(made):  # type: ignore[misc, valid-type]
        def place(self, pool: Pool, retained: Retained) -> Manager:
            nonlocal calls
            calls -= 1
            if calls < 0:
                raise KeyError("gone")
            return super().place(pool, retained)  # type: ignore[no-any-return]

    return Late


def losing(setup: Setup) -> object:
    return setup.limitation


def hinting(setup: Setup) -> object:
    """Half full and near its limit: it asks what one more request takes."""
    return binding({"slo_used_share": 90.0}, setup)


@pytest.mark.parametrize(
    "ask",
    [start, losing, hinting, execute_until_lost, find_unserved, execute],
    ids=lambda ask: str(ask.__name__),
)
def test_wherever_it_is_asked_it_is_named(
    plug_in: Callable[[type], None], ask: Callable[[Setup], object]
) -> None:
    """The first manager is asked how long requests may be, the next by who is called here."""
    kind = late(1)
    kind.limitation = property(fails)  # type: ignore[assignment, method-assign]
    plug_in(kind)
    setup = prepare(FEW, **LLAMA, policy="odd", slo="ttft_p99=2s")
    with pytest.raises(InputError, match=GONE):
        ask(setup)


@pytest.mark.parametrize("method", ["can_admit", "memory", "admit", "can_extend", "extend"])
def test_a_hint_that_a_policy_breaks(plug_in: Callable[[type], None], method: str) -> None:
    plug_in(strange(**{method: fails}))
    with pytest.raises(InputError, match=GONE):
        hinting(prepare(FEW, **LLAMA, policy="odd"))


def test_how_it_stores_is_asked_for_measured_kernels(plug_in: Callable[[type], None]) -> None:
    @dataclass(frozen=True)
    class Stored(Storage):
        @property
        def format(self) -> KvFormat:
            raise KeyError("gone")

        def apply(self, pool: Pool) -> Pool:
            return pool

    plug_in(Stored)
    with pytest.raises(InputError, match=GONE.replace("odd", r"paging\+odd")):
        prepare(FEW, model="llama-3.1-8b", gpu="rtx-4090", cost="table", policy="paging+odd")


def test_in_sizes_and_comparisons(plug_in: Callable[[type], None]) -> None:
    """Two tokens pass the short history, ten don't."""

    def extend(self: Pages, seq: Sequence, tokens: int) -> None:
        if tokens > 5:
            raise KeyError("gone")
        Pages.extend(self, seq, tokens)

    plug_in(strange(extend=extend))
    with pytest.raises(InputError, match=GONE):
        size(**LLAMA, context=10, policy="odd")
    with pytest.raises(InputError, match=GONE):
        compare_policies("azure-2023-conv", **LLAMA, policy=("odd",), first=2)


def test_a_fault_of_our_own_is_shown_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pages, "extend", lambda self, seq, tokens: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        execute(prepare(FEW, **LLAMA, policy="paging"))


def test_one_that_always_admits_ends() -> None:
    """Nothing is taken and nothing refused: 100 tokens are there, so 101 requests are too many."""
    changes = {
        "can_admit": lambda self, seq: True,
        "can_extend": lambda self, seq, tokens: True,
        "extend": lambda self, seq, tokens: None,
    }
    with pytest.raises(
        InputError, match=r"can_admit\(\) takes more requests than .* room for tokens \(100\)"
    ):
        fill(strange(**changes)().manager(POOL), 3)


class Cost:
    constants = warnings = ()
    name = "odd"

    def __init__(self, linear: Callable[[StepPlan], Any]) -> None:
        self.linear = linear


@pytest.mark.parametrize(
    ("linear", "said"),
    [
        (lambda plan: (0, 0, 1), "expected whole attoseconds above 0"),
        (lambda plan: (1.5, 0, 1), "expected whole attoseconds above 0"),
        (lambda plan: None, r"linear\(\) is None"),
        (lambda plan: (5, 0, 0), "1 to 1 repetitions"),
        (lambda plan: (5, 0, 2), "1 to 1 repetitions"),
        (lambda plan: (5 + plan.step, 0, plan.max_steps), "a step said to take 5 as takes 6"),
    ],
)
def test_costs_that_cant_be_true(linear: Callable[[StepPlan], Any], said: str) -> None:
    with pytest.raises(InputError, match=f"^cost model odd: .*{said}"):
        check_cost(Cost(linear), 10)


class Odd:
    """Options of such a cost model."""

    def __init__(self, linear: Callable[[StepPlan], Any]) -> None:
        self.linear = linear

    def model(self, setup: Setup) -> StepCost:
        return Cost(self.linear)


@pytest.mark.parametrize(
    ("linear", "said"),
    [
        (lambda plan: "no", r"linear\(\) is 'no'; expected whole attoseconds"),
        (lambda plan: 1 / 0, r"ZeroDivisionError: division by zero \(test_seam.py, line \d+\)"),
    ],
)
def test_costs_that_cant_be_true_end_before_a_run(
    linear: Callable[[StepPlan], Any], said: str
) -> None:
    """A step's time decides how often to sample."""
    with pytest.raises(InputError, match=f"^cost model odd: {said}"):
        prepare(FEW, **LLAMA, cost=Odd(linear))


def test_costs_that_break_in_a_run_are_named() -> None:
    def linear(plan: StepPlan) -> tuple[int, int, int]:
        assert plan.step < 4, "too late"
        return 10**15, 0, 1

    setup = prepare(FEW, **LLAMA, cost=Odd(linear))
    with pytest.raises(
        InputError, match=r"^cost model odd: AssertionError: too late .*\(test_seam"
    ):
        execute(setup)


def test_options_that_make_no_cost_model(monkeypatch: pytest.MonkeyPatch) -> None:
    makers: dict[str, Callable[[Setup], Any]] = {
        r"--cost odd: model\(\) is None; expected a StepCost": lambda setup: None,
        "--cost odd: ZeroDivisionError": lambda setup: 1 / 0,
    }
    for said, model in makers.items():
        odd = Odd(lambda plan: None)
        monkeypatch.setattr(odd, "model", model)
        with pytest.raises(InputError, match=f"^{said}"):
            prepare(FEW, **LLAMA, cost=odd)


def test_an_exit_while_loading_is_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "files", plugins.Found({}, []))
    (tmp_path / "gone.py").write_text("import sys\nsys.exit(7)\n")
    plugins.load_file(tmp_path / "gone.py")
    assert plugins.files.notes == [f"--plugin {tmp_path / 'gone.py'}: SystemExit: 7"]
