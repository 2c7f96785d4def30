"""What a comparison says in the end: a sentence that a person can act on."""

from sim.measured.comparison import Error
from sim.measured.contradictions import overridden
from sim.measured.options import Options
from sim.measured.prediction import closed_loop
from sim.measured.run import Measured
from sim.run.simulation import Run

TO_PLAN_WITH_PCT = 10
"""Simulators of serving report errors of up to 9 % (Vidur, Agrawal et al., MLSys'24)."""


def notes(options: Options, run: Run) -> list[str]:
    """Where the replay differs from what was done, in words."""
    found = []
    users = options["max_concurrency"]
    if users is not None and closed_loop(options) is None:
        found.append(
            f"max_concurrency {users} with a request rate: requests are sent at the recorded "
            "times, which waited for the measured answers"
        )
    elif users is not None:
        found.append(f"max_concurrency {users}: a request is sent when another is answered")
    if options["enforce_eager"] is True and run.setup.cost_table is None:  # steps hold it all
        found.append("enforce_eager: the host's work between eager kernels is not modelled")
    return found


def verdict(measured: Measured, run: Run, found: list[Error], options: Options) -> str:
    """All within tolerance, or how far off and what to give or check first."""
    judged = [e for e in found if e.tolerance_pct is not None]
    missed = [e for e in judged if not e.within]
    limits = " and ".join(f"±{t:,.10g} %" for t in sorted({e.tolerance_pct or 0 for e in judged}))
    differ = _counts_that_differ(measured, run)
    if not missed:
        if changed := overridden(options, run.setup.engine.name):
            meaning = f"but of another server than the record's: {'; '.join(changed)}."
        elif differ:
            meaning = f"but {' and '.join(differ)}: what memory does is not predicted."
        elif max(e.tolerance_pct or 0 for e in judged) > TO_PLAN_WITH_PCT:
            meaning = f"too wide to plan with: expected at most ±{TO_PLAN_WITH_PCT} %."
        else:
            meaning = "so this engine on this device is predicted well enough to plan with."
        return f"All {len(judged)} judged metrics are within {limits}, {meaning}"
    worst = max(missed, key=lambda e: abs(e.error_pct or float("inf")))
    off = "n/a" if worst.error_pct is None else f"{worst.error_pct:+.1f} %"
    return (
        f"{len(missed)} of {len(judged)} judged metrics miss their tolerance of {limits}, "
        f"{worst.label} most ({off})"
        + "".join(f"; {count}" for count in differ)
        + f". {_advice(measured, run, options)}"
    )


def _counts_that_differ(measured: Measured, run: Run) -> list[str]:
    """Of what the run counted, in words; no tolerance covers them."""
    counts = (
        ("preemptions", measured.preemptions, run["num_preemptions"]),
        (
            "tokens found in the cache",
            measured.meta.get("prefix_cache_hit_tokens"),
            run["prefix_hit_tokens"],
        ),
    )
    return [
        f"{what} differ ({guess or 0:,.0f} predicted, {count:,} measured)"
        for what, count, guess in counts
        if count is not None and count != (guess or 0)
    ]


def _advice(measured: Measured, run: Run, options: Options) -> str:
    if changed := overridden(options, run.setup.engine.name):
        return f"The record is overridden ({'; '.join(changed)}): compare without that first."
    if run.setup.cost_table is not None:
        return "Step times were measured: compare their machine and its load with the run's."
    if run.setup.profile is None:
        return "The roofline knows datasheets alone: measure your kernels and give --profile."
    if measured.trace.prefix is None:
        return "Prompts may begin alike: give their block ids with --prefixes."
    if options.assumptions(run.setup.limits):
        return "Limits were assumed: give the server's start-up log with --server-log."
    if run.cost.warnings:
        return "The profile was left: see the warnings, and measure what they name."
    return (
        "Nothing was assumed: compare the profile's device, clocks and versions with the "
        "server's, or fit with `kvtwin fit` on another run."
    )
