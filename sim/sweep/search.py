"""The most load that a service level bears, or the fewest GPUs or dollars that bear a load."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sim.hardware import find_device
from sim.run.money import money
from sim.run.options import RunOptions
from sim.run.simulation import prepared
from sim.sweep.bisect import Ladder, Top, best_two, highest, lowered
from sim.sweep.evaluate import Row, resolved, row_of
from sim.sweep.fingerprint import key_of, trace_digest
from sim.sweep.grid import Grid, Value, with_values
from sim.sweep.hopeless import Lost, execute_until_lost
from sim.sweep.journal import Journal
from sim.sweep.question import Question
from sim.sweep.sampled import try_sampled
from sim.sweep.serve_lines import startable
from sim.sweep.steady import unsteady
from sim.sweep.sweep import Run, plan_of, run_of, work_of
from workloads.errors import InputError
from workloads.schema import Trace


@dataclass(frozen=True)
class Found:
    """A configuration with the most load, or the fewest replicas, that it holds the level at."""

    point: dict[str, Value]
    options: RunOptions
    worth: float  # the load, or minus GPUs or dollars an hour
    row: Row  # metrics there, of the draw that comes closest to breaking it
    beyond: Row | None  # one rung on, where the level is broken; None where that was not tried
    at_once: int | None = None  # so many requests: all of them at once don't break the level


@dataclass(frozen=True)
class Refused:
    """A configuration that can't be run, and why."""

    point: dict[str, Value]
    reason: str


@dataclass
class Searched:
    """The answer, and all that was run for it."""

    question: Question
    best: Found | None
    runner_up: Found | None
    rows: list[Row] = field(default_factory=list)  # a row a run, in order of the search
    configurations: int = 0
    lossless: Found | None = None  # where the best changes answers: the best one that doesn't
    refused: list[Refused] = field(default_factory=list)
    combinations: int = 1  # of the grid, of which a sampler tries some
    reused: int = 0  # rows that an earlier search left in the journal
    others: int = 0  # runs that the journal keeps and no row here has: other commands made them

    @property
    def points(self) -> int:
        """Loads or sizes of configurations that were looked at."""
        return len({(row["configuration"], row["rung"]) for row in self.rows})


class Search:
    """Runs what a question asks for, each run once in a journal's life."""

    def __init__(
        self,
        grid: Grid,
        trace: Trace,
        question: Question,
        journal: Journal | None = None,
        said: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Raises InputError where options and question don't fit together."""
        if grid.base.slo is None:
            raise InputError("--slo: missing; expected a service level such as ttft_p99=2s")
        if "slo" in grid.axes:
            raise InputError("--slo: expected one service level")
        if grid.base.data_parallel != 1 or "data_parallel" in grid.axes:
            raise InputError(
                "--data-parallel: servers of several ranks are not searched for, expected sweep"
            )
        taken = {question.over} if question.objective == "load" else {"replicas"}
        if named := taken & set(grid.axes):
            raise InputError(f"--set {named.pop()}: is what is sought, expected no values")
        if question.draws > 1 and grid.base.arrivals is None:
            raise InputError("--draws: expected --arrivals to draw, such as poisson")
        if question.objective == "cost" and grid.base.price is None:
            raise InputError("--minimise cost: expected prices, such as --price h100=2.50/h")
        self._grid, self._question, self._trace = grid, question, trace
        self._plan: list[Run] = []
        if question.trials is None:
            self._work, self._plan = plan_of(grid, trace)
        else:
            self._work = work_of(grid)  # combinations come as they are chosen
        self._base = replace(grid, base=self._work.base)
        self._digest = trace_digest(trace)
        first = None if "first" in grid.axes else grid.base.first
        self._requests = len(trace) if first is None else min(first, len(trace))
        self._ceiling = question.ceiling(self._requests)
        self._journal, self._said = Journal(None) if journal is None else journal, said
        self._before = frozenset(self._journal.rows)
        self._asked: set[str] = set()  # keys of all runs of this search
        self._draws = list(range(question.draws))
        self._seen: dict[tuple[int, int, int], Row] = {}
        self._unfit: set[int] = set()  # configurations that can't be run
        self.rows: list[Row] = []
        for run in self._plan:
            self._check_price(run)

    def answer(self) -> Searched:
        """The best configuration and its runner-up. Raises InputError where none can be run."""
        if self._question.trials is not None:
            self._sample(self._question.trials)
        ladders = [self._ladder(number) for number in self._promising_first() if self._fits(number)]
        best, second = best_two(ladders, self._climb)
        if best is None and all(row["error"] is not None for row in self.rows):
            raise InputError(self.rows[0]["error"])
        exact = self._lossless(best, second, ladders)
        first, runner_up, lossless = (
            None if top is None else self._found(top) for top in (best, second, exact)
        )
        return Searched(
            self._question, first, runner_up, self.rows, len(self._plan), lossless,
            self._refused(), len(self._grid),
            len(self._asked & self._before), len(self._before - self._asked),
        )  # fmt: skip

    def _refused(self) -> list[Refused]:
        """Configurations none of whose runs could be made."""
        ran = {row["configuration"] for row in self.rows if row["error"] is None}
        reasons: dict[int, str] = {}
        for row in self.rows:
            if row["configuration"] not in ran:
                reasons.setdefault(row["configuration"], row["error"])
        return [Refused(self._plan[number].point, reasons[number]) for number in sorted(reasons)]

    def _check_price(self, run: Run) -> None:
        """A price that is missing is a slip in the question, not a configuration that can't run."""
        options = self._base.options(run.point)
        gpu = options.gpu
        if self._question.objective == "cost" and gpu is not None:
            device = find_device(gpu) if isinstance(gpu, str) else gpu
            money(device.name, options.price, options.watts)

    def _sample(self, trials: int) -> None:
        """Plan and climb combinations that a sampler chooses by what earlier ones were worth."""
        numbers: dict[str, int] = {}

        def worth(point: dict[str, Value]) -> float | None:
            run = run_of(self._grid, self._work, self._digest, point)
            if (number := numbers.setdefault(run.key, len(self._plan))) == len(self._plan):
                self._check_price(run)
                self._plan.append(run)
            if not self._fits(number):
                return None
            ladder = self._ladder(number)
            return ladder.worth(self._climb(number, 0, ladder.last))

        try_sampled(self._grid, trials, self._question.sample_seed, worth)

    def _fits(self, number: int) -> bool:
        """Whether a configuration can be run; one that can't is kept as a row, and said."""
        if self._question.objective == "load":
            return True  # its first rung says so
        if number in self._unfit:
            return False
        most, tp = self._most_replicas(number), int(self._plan[number].settings["tp"])
        try:
            if not most:
                most_gpus = self._question.max_gpus
                raise InputError(f"--max-gpus {most_gpus}: tp is {tp}, expected as many")
            startable(self._trace, self.options(number, most - 1))
        except InputError as error:
            self._unfit.add(number)
            self._keep(number, most - 1, 0, 1, {"error": str(error)})
            return False
        return True

    def _lossless(self, best: Top | None, second: Top | None, ladders: list[Ladder]) -> Top | None:
        """The best configuration that leaves the model's answers, where the best of all doesn't."""
        if best is None or not self._loses(best.name):
            return None
        if second is not None and not self._loses(second.name):
            return second
        return best_two([one for one in ladders if not self._loses(one.name)], self._climb)[0]

    def _loses(self, number: int) -> bool:
        try:
            setup = prepared(self._trace, self.options(number, 0))
        except InputError:
            return False  # it can't be run, so it is no answer either
        return setup.limitation is not None

    def holds(self, number: int, rung: int) -> bool:
        """Whether the level holds on the rung of a configuration under every draw."""
        return all(self._met(number, rung, draw) for draw in range(self._question.draws))

    def _promising_first(self) -> list[int]:
        """Configurations in order, those first that hold the middle one of the loads tried.

        Where two of them do, no run is spent on the others.
        """
        rungs = self._question.rungs if self._question.objective == "load" else None
        numbers = range(len(self._plan))
        if rungs is None or len(numbers) < 3 or self._question.trials is not None:
            return list(numbers)
        return sorted(numbers, key=lambda number: not self._met(number, rungs // 2, draw=0))

    def _inferred(self, number: int, rung: int, draw: int) -> bool:
        """Whether the level holds, from a higher rung that did or a lower one that didn't."""
        for (other, seen, drawn), row in self._seen.items():
            if (other, drawn) == (number, draw):
                met = bool(row.get("slo_met"))
                if (met and seen >= rung) or (not met and seen <= rung):
                    return met
        return self._met(number, rung, draw)

    def _climb(self, number: int, first: int, last: int | None) -> int:
        """The highest rung that holds under every draw: the lowest of the draws' own.

        Draws are the same for all configurations, and so, mostly, is the one that binds: it is
        climbed first, and the others are only asked whether they hold there.
        """
        binding, *others = self._draws
        met = partial(self._inferred, number, draw=binding)
        if self._question.objective != "load" and first == 0 and last is not None:
            top = lowered(met, 0, last)  # many replicas are the lowest rungs
        else:
            top = highest(met, first, last, self._ceiling)
        for draw in others:
            if top < first:
                break
            lower = lowered(partial(self._inferred, number, draw=draw), first, top)
            binding, top = (draw, lower) if lower < top else (binding, top)
        self._draws.remove(binding)
        self._draws.insert(0, binding)
        return top

    def _met(self, number: int, rung: int, draw: int) -> bool:
        where = number, rung, draw
        if where not in self._seen:
            self._seen[where] = self._probe(number, rung, draw)
        return bool(self._seen[where].get("slo_met"))

    def options(self, number: int, rung: int, draw: int = 0) -> RunOptions:
        """Of one run."""
        question = self._question
        options = self._base.options(self._plan[number].point)
        if question.draws > 1:
            options = replace(options, seed=options.seed + draw)
        if question.objective == "load":
            return with_values(options, {question.over: question.load(rung)})
        return replace(options, replicas=self._most_replicas(number) - rung)

    def _probe(self, number: int, rung: int, draw: int) -> Row:
        options = self.options(number, rung, draw)
        key = key_of(self._digest, options) + "-startable-until-lost-or-steady"
        self._asked.add(key)
        if (row := self._journal.rows.get(key)) is None:
            row = _run(self._trace, options)
            self._journal.add(key, row)
        load = self._question.over if self._question.objective == "load" else "replicas"
        self._keep(number, rung, draw, getattr(options, load), row)
        return row

    def _keep(self, number: int, rung: int, draw: int, value: float, row: Row) -> None:
        """In the table of runs, and said."""
        verdict = "holds" if row.get("slo_met") else "does not hold"
        if row["error"] is not None:
            verdict = f"can't be run: {row['error']}"
        load = self._question.over if self._question.objective == "load" else "replicas"
        self._said(f"{_named(self._plan[number].point)}, {load} {value:g}: {verdict}")
        where = {"configuration": number, "rung": rung, "draw": draw, load: value}
        self.rows.append({**self._plan[number].settings, **where, **row})

    def _ladder(self, number: int) -> Ladder:
        question = self._question
        if question.objective == "load":
            rungs = question.rungs
            last = None if rungs is None else rungs - 1
            return Ladder(number, last, lambda worth: int(worth) + 1, float)
        most, each = self._most_replicas(number), self._each(number)

        def first_worth_more(worth: float) -> int:
            return next((rung for rung in range(most) if -each * (most - rung) > worth), most)

        return Ladder(number, most - 1, first_worth_more, lambda rung: -each * (most - rung))

    def _most_replicas(self, number: int) -> int:
        return self._question.max_gpus // int(self._plan[number].settings["tp"])

    def _each(self, number: int) -> float:
        """What a replica takes: GPUs, or dollars an hour."""
        options = self._base.options(self._plan[number].point)
        if self._question.objective == "gpus":
            return options.tp
        setup = prepared(self._trace, options)
        return (setup.money.dollars_per_hour or 0.0) * options.tp

    def _found(self, top: Top) -> Found:
        worth = top.worth
        if self._question.objective == "load":
            worth = self._question.load(top.rung)
        there, beyond = (
            [row for (number, rung, _), row in self._seen.items() if (number, rung) == where]
            for where in ((top.name, top.rung), (top.name, top.rung + 1))
        )
        return Found(
            self._plan[top.name].point,
            startable(self._trace, self.options(top.name, top.rung))[0],
            worth,
            max(there, key=lambda row: float(row["slo_used_share"])),
            next((row for row in beyond if not row.get("slo_met")), None),
            self._requests if top.rung == self._ceiling else None,
        )


def _run(trace: Trace, options: RunOptions) -> Row:
    try:
        setup = startable(trace, options)[1]
        found = execute_until_lost(setup)
    except InputError as error:
        return {"error": str(error)}
    if isinstance(found, Lost):
        lost = {"lost_at_s": found.at_s, "lost_bound": found.bound, "slo_met": 0}
        return {"error": None, **resolved(setup), **lost}
    return {"lost_at_s": None, "lost_bound": None, "unsteady": unsteady(found)} | row_of(found)


def _named(point: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.items()) or "the configuration"
