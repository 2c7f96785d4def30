"""Runs that are stopped when a service level is lost, whatever else would have come.

Sound, not a guess: a percentile is beyond its limit for certain once so many requests are. A queue
that only grows breaks a bound on TTFT after few of them. What is counted is what the engine's plans
say, so the engine knows nothing of it.
"""

from typing import NamedTuple

from sim.engine.loop import Effects
from sim.engine.requests import AS_PER_NS, nanoseconds
from sim.plan import AS_PER_S, Execute, StepPlan
from sim.run.driver import run_simulated
from sim.run.judged import expect_served, metrics_of
from sim.run.seam import told_by, try_out
from sim.run.simulation import Run, Setup, start


class Lost(NamedTuple):
    """A run that was stopped: when, and by which bound."""

    at_s: float
    bound: str


def execute_until_lost(setup: Setup) -> Run | Lost:
    """The whole run, or when its level was lost.

    Only of an open loop without warm-up, horizon or replicas it is known beforehand who will ask
    when; any other is run whole.
    """
    known = setup.closed is None and setup.trace.turns is None and setup.warm_up is None
    if setup.level is None or not known or setup.horizon_s is not None or setup.replicas > 1:
        from sim.run.simulation import execute

        return execute(setup)
    try_out(setup.policy, setup.pool, setup.label)
    watch = _Watch(setup)
    started, model = start(setup), setup.cost()
    with told_by(setup.policy, setup.label):
        effects = _watched(started.effects, watch)
        run_simulated(effects, model, setup.fast_forward, setup.device.host_bytes_per_s)
        if watch.lost is not None:
            return watch.lost
        log = started.recorder.log()
    expect_served(setup, log)
    return Run(setup, log, model, metrics_of(setup, log))


def _watched(effects: Effects, watch: "_Watch") -> Effects:
    effect = next(effects, None)
    while effect is not None:
        done = yield effect
        if isinstance(effect, Execute):
            watch.saw(effect.plan, done.now_as)
            if watch.lost is not None:
                effects.close()
                return
        try:
            effect = effects.send(done)
        except StopIteration:
            return


class _Watch:
    """Counts requests that are beyond a bound for certain."""

    def __init__(self, setup: Setup) -> None:
        trace, level = setup.trace, setup.level
        assert level is not None, "there is a level to watch"
        self.lost: Lost | None = None
        arrivals = [ns * AS_PER_NS for ns in nanoseconds(trace.arrival_s).tolist()]
        self._outputs = trace.output_tokens.tolist()
        self._first: dict[int, int] = {}
        self._finish: dict[int, int] = {}
        self._before = 0  # the end of the plan before
        times = {"ttft": self._first}
        if not setup.limits.rules.async_scheduling:  # else ends are told a step late
            times["e2el"] = self._finish
        self._overdue = [
            _Overdue(bound.text, round(bound.limit_s * AS_PER_S), bound.lost(len(trace)), arrivals,
                     times[bound.latency])
            for bound in level.bounds
            if bound.latency in times
        ]  # fmt: skip
        several = int((trace.output_tokens > 1).sum())
        self._slow = [
            _Slow(bound.text, round(bound.limit_s * AS_PER_S), bound.lost(several))
            for bound in level.bounds
            if bound.latency == "tpot" and "e2el" in times
        ]

    def saw(self, plan: StepPlan, now_as: int) -> None:
        """The plan has run, and the clock is at `now_as`."""
        for request, _, _, last in plan.chunks:
            if last:
                self._first.setdefault(request, now_as)
        for request in plan.finished:
            self._finish[request] = self._before
            if self._outputs[request] > 1:
                lasted = self._before - self._first[request]
                for slow in self._slow:
                    slow.count += lasted > slow.limit_as * (self._outputs[request] - 1)
        self._before = now_as
        for overdue in self._overdue:
            overdue.look(now_as)
        counters: list[_Overdue | _Slow] = [*self._overdue, *self._slow]
        for counter in counters:
            if counter.count >= counter.most:
                self.lost = Lost(now_as / AS_PER_S, counter.text)
                return


class _Slow:
    """Requests whose answers took longer a token than a bound of TPOT."""

    def __init__(self, text: str, limit_as: int, most: int) -> None:
        self.text, self.limit_as, self.most = text, limit_as, most
        self.count = 0


class _Overdue:
    """Requests whose token, the first or the last, did not come within the limit."""

    def __init__(
        self, text: str, limit_as: int, most: int, arrivals: list[int], came: dict[int, int]
    ) -> None:
        self.text, self.most = text, most
        self.count = 0
        self._limit = limit_as
        self._arrivals = arrivals
        self._came = came
        self._next = 0  # rows before it are judged

    def look(self, now_as: int) -> None:
        """Judge all whose time is up; their token came by then, in time or not, or is late."""
        row, arrivals, limit, came = self._next, self._arrivals, self._limit, self._came
        while row < len(arrivals) and (due := arrivals[row] + limit) < now_as:
            self.count += came.get(row, now_as) > due
            row += 1
        self._next = row
