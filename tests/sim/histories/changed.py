"""Laws of two runs: what a change of the input may change of the outcome, and what it may not.

Each takes an outcome and returns whether the law applied to it.
"""

from dataclasses import replace

import numpy as np

from sim.policy.manager import Pool
from tests.sim.histories.made import History, Outcome, made, run
from workloads.errors import InputError
from workloads.schema import PrefixBlocks, Trace
from workloads.transform import sample

CLOSE = 1e-9  # seconds


def fresh(history: History, **changes: object) -> Outcome | None:
    """The changed history's outcome; None where policy and pool don't go together."""
    try:
        return run(replace(history, **changes))  # type: ignore[arg-type]
    except InputError:
        return None


def same(one: Outcome, other: Outcome, tables: tuple[str, ...] = ("requests", "steps")) -> None:
    """Equal tables, to the last bit."""
    for table in tables:
        for name, column in getattr(one.log, table).items():
            np.testing.assert_array_equal(column, getattr(other.log, table)[name], err_msg=name)


def steps_one_by_one(out: Outcome) -> bool:
    """Events of many steps end where single steps do, and are sampled alike."""
    other = run(replace(out.history, fast_forward=not out.history.fast_forward))
    same(out, other, ("requests", "timeline"))
    assert out.log.end_s == other.log.end_s
    return True


def twice_the_same(out: Outcome) -> bool:
    """Nothing is left from a run that another could see."""
    same(out, run(out.history), ("requests", "steps", "timeline"))
    return True


def after_an_idle_time_it_is_a_new_engine(out: Outcome) -> bool:
    """The requests again, long after: they do what they did, to the byte.

    Shared prefixes are left out: what a cache keeps is there to be found.
    """
    h, trace = out.history, out.history.trace
    if h.horizon_s is not None or h.closed or (trace.prefix and "prefix" in h.policy):
        return False
    gap = float(np.ceil(out.log.end_s + trace.arrival_s[-1])) + 4.0
    twice = made(
        [*trace.arrival_s.tolist(), *(trace.arrival_s + gap).tolist()],
        trace.prompt_tokens.tolist() * 2,
        trace.output_tokens.tolist() * 2,
    )
    seldom = replace(h, fast_forward=False, interval_s=0.25)  # an idle time is long
    alone = run(replace(seldom, trace=replace(trace, prefix=None)))
    both = run(replace(seldom, trace=twice))
    n, steps = len(trace), len(alone.log.steps["steps"])
    assert len(both.log.steps["steps"]) == 2 * steps
    for name, column in alone.log.requests.items():
        again = both.log.requests[name][n:]
        if name == "request_id":
            continue
        if name in ("preempted_s", "recomputing_s"):  # how long, not when
            np.testing.assert_allclose(again, column, atol=CLOSE, err_msg=name)
        elif name.endswith("_s"):
            np.testing.assert_allclose(again - gap, column, atol=CLOSE, err_msg=name)
        else:
            np.testing.assert_array_equal(again, column, err_msg=name)
    for name, column in alone.log.steps.items():
        again = both.log.steps[name][steps:]
        if name in ("start_s", "end_s"):
            np.testing.assert_allclose(again - gap, column, atol=CLOSE, err_msg=name)
        elif name == "step":
            np.testing.assert_array_equal(again - steps, column)
        elif name in ("first_step_s", "step_growth_s"):
            np.testing.assert_allclose(again, column, atol=CLOSE, err_msg=name)
        elif "prefix" not in h.policy or name not in ("free_bytes", "cached_bytes"):
            np.testing.assert_array_equal(again, column, err_msg=name)
    return True


def a_window_of_the_longest_context_changes_nothing(out: Outcome) -> bool:
    """Every token is kept and read."""
    h = out.history
    if any(word in h.policy for word in ("sliding", "top_k", "prefix", "layers")):
        return False
    whole = f"+sliding_window:window={h.limits.max_model_len},sinks=0"
    placement, plus, storage = h.policy.partition("+")
    other = fresh(h, policy=placement + whole + plus + storage)
    assert other, "a window is refused where the placement is not"
    if other.manager.longest() != out.manager.longest():  # it may end what else grows on
        return False
    same(out, other, ("requests", "steps", "timeline"))
    return True


def more_memory_never_serves_fewer(out: Outcome) -> bool:
    """With twice the pool nobody gets less."""
    h = out.history
    if h.horizon_s is not None:
        return False
    other = run(replace(h, pool=larger(h.pool)))
    before, after = out.log.requests, other.log.requests
    assert (after["generated_tokens"] >= before["generated_tokens"]).all()
    assert out["refused"] >= other["refused"]  # type: ignore[operator]
    return True


def larger(pool: Pool) -> Pool:
    return replace(pool, capacity_bytes=2 * pool.capacity_bytes)


def names_of_blocks_mean_nothing(out: Outcome) -> bool:
    """Ids that are permuted make the same run."""
    trace = out.history.trace
    if trace.prefix is None:
        return False
    known = np.unique(trace.prefix.ids)
    others = np.random.default_rng(out.history.number).permutation(10 * len(known))[: len(known)]
    ids = others[np.searchsorted(known, trace.prefix.ids)]
    blocks = PrefixBlocks(trace.prefix.block_tokens, trace.prefix.offsets, ids)
    renamed = replace(out.history, trace=replace(trace, prefix=blocks))
    same(out, run(renamed), ("requests", "steps", "timeline"))
    return True


def prefixes_that_nobody_shares_are_none(out: Outcome) -> bool:
    """Ids of their own for all blocks find nothing but one's own."""
    h, trace = out.history, out.history.trace
    if trace.prefix is None or "prefix" not in h.policy:
        return False
    ids = np.arange(len(trace.prefix.ids))
    unique = PrefixBlocks(trace.prefix.block_tokens, trace.prefix.offsets, ids)
    own = run(replace(h, trace=replace(trace, prefix=unique)))
    none = run(replace(h, trace=replace(trace, prefix=None)))
    same(own, none, ("requests", "steps", "timeline"))
    return True


def samples_are_as_many_requests(out: Outcome) -> bool:
    """Where nothing is shared, n outputs of a prompt are n requests."""
    h, trace = out.history, out.history.trace
    if "prefix" in h.policy:
        return False
    n = 2 + h.number % 3
    by_hand = made(
        *(
            np.repeat(column, n).tolist()
            for column in (trace.arrival_s, trace.prompt_tokens, trace.output_tokens)
        )
    )
    one = run(replace(h, trace=sample(replace(trace, prefix=None), n)))
    same(one, run(replace(h, trace=by_hand)), ("requests", "steps", "timeline"))
    return True


def doubled_times_double_times(out: Outcome) -> bool:
    """Arrivals, steps, transfers, samples and horizon twice as long: so is every time."""
    h, trace = out.history, out.history.trace
    if h.closed:
        return False
    slow = run(replace(h, times=2, trace=slowed(trace)))
    for table in ("requests", "steps", "timeline"):
        for name, column in getattr(out.log, table).items():
            other = getattr(slow.log, table)[name]
            expected = 2 * column if name.endswith("_s") else column
            np.testing.assert_array_equal(other, expected, err_msg=name)
    assert slow.log.end_s == 2 * out.log.end_s
    return True


def slowed(trace: Trace) -> Trace:
    return replace(trace, arrival_s=2 * trace.arrival_s)


def a_horizon_cuts_and_changes_nothing_before(out: Outcome) -> bool:
    """What ends before it is as without it."""
    h = out.history
    if not len(out.log.steps["steps"]) or h.horizon_s is not None:
        return False
    cut = round(0.6 * out.log.end_s, 3)
    if cut <= 0:
        return False
    short = run(replace(h, horizon_s=cut, fast_forward=False))
    whole = out if not h.fast_forward else run(replace(h, fast_forward=False))
    kept = int((whole.log.steps["start_s"] < cut).sum())
    assert len(short.log.steps["steps"]) == kept
    for name, column in short.log.steps.items():
        np.testing.assert_array_equal(column, whole.log.steps[name][:kept], err_msg=name)
    assert short.log.end_s <= max(cut, whole.log.steps["end_s"][kept - 1] if kept else 0)
    done = ~np.isnan(short.log.requests["finish_s"])
    for name in ("first_token_s", "finish_s", "generated_tokens"):
        mine, full = short.log.requests[name][done], whole.log.requests[name][done]
        np.testing.assert_array_equal(mine, full, err_msg=name)
    return True


def one_place_batches_alike(out: Outcome) -> bool:
    """With one request at a time and prompts whole, static batches are continuous ones."""
    h = out.history
    if h.engine == "ahead" or h.closed or h.horizon_s is not None:
        return False
    most = int(h.trace.prompt_tokens.max()) + h.limits.max_model_len
    limits = replace(h.limits, max_num_seqs=1, max_num_batched_tokens=most)
    one, other = (
        run(replace(h, limits=replace(limits, batching=kind))) for kind in ("static", "continuous")
    )
    same(one, other, ("requests",))
    return True


CHANGED = (
    steps_one_by_one,
    twice_the_same,
    after_an_idle_time_it_is_a_new_engine,
    a_window_of_the_longest_context_changes_nothing,
    more_memory_never_serves_fewer,
    names_of_blocks_mean_nothing,
    prefixes_that_nobody_shares_are_none,
    samples_are_as_many_requests,
    doubled_times_double_times,
    a_horizon_cuts_and_changes_nothing_before,
    one_place_batches_alike,
)
