"""How many measured values lie within the stated intervals, tables thinned one after another."""

from dataclasses import replace
from functools import partial
from statistics import mean

from benchmarks.recorded.markdown import markdown
from benchmarks.recorded.replay import RUNS
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import Profile, Row, find_profile
from sim.cost.kernels.spread import LEAST, common_spread, shares, slower, spreads
from sim.measured.comparison import compare, side_by_side
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.run.interval import Metrics, interval, values_of
from sim.run.simulation import Run, Setup, execute
from sim.units import deviations

LEVEL = 90
TABLES = ("attention", "qkv_proj", "o_proj", "gate_up_proj", "down_proj", "lm_head", "act_fn")


def thinned(profile: Profile, kernel: str) -> Profile:
    """The profile without every second inner size of that table."""
    rows = profile.rows[kernel]
    axis = 3 if kernel == "attention" else 2
    sizes = sorted({row[axis] for row in rows if row[axis]})
    out = set(sizes[1:-1:2])
    kept: list[Row] = [row for row in rows if row[axis] not in out]
    return replace(profile, rows={**profile.rows, kernel: kept})


def together(setup: Setup, run: Run, names: list[str]) -> float:
    """The mean half-width, in per cent, if every kernel erred alike at once, and chance besides."""
    assert setup.profile is not None
    assert isinstance(run.cost, KernelTable)
    own = spreads(setup.profile)
    parts = shares(run.cost, run.log.steps).items()
    kernels = sum(share for kernel, share in parts if kernel != "all_reduce")
    off = sum(share * own[kernel] for kernel, share in parts)
    off = deviations(LEVEL) * (off + kernels * common_spread(setup.profile))
    ends = [
        execute(replace(setup, profile=slower(setup.profile, 1 + sign * off))) for sign in (-1, 1)
    ]
    widths = [abs((end[n] or 0) / (run[n] or 1) - 1) for end in ends for n in names]
    return 100 * (mean(widths) + deviations(LEVEL) * 2**0.5 * LEAST)


def coverage() -> str:
    """Measured values within the intervals of predictions that lack half of a table."""
    rows = []
    inside = dict.fromkeys(RUNS, 0)
    judged = dict.fromkeys(RUNS, 0)
    for kernel in TABLES:
        cells = [kernel]
        for gpu, (name, device, profile) in RUNS.items():
            measured = read_measured(name)
            less = thinned(find_profile(profile), kernel)
            setup = prediction(measured, gpu=device, profile=less, cost="table")
            run = execute(setup)
            own = seen_as(measured, run)
            bounds = interval(setup, own, LEVEL, partial(seen_as, measured))
            found = [e for e in compare(measured, run) if e.tolerance_pct is not None]
            hits = sum(bounds.holds(e.name, e.measured) for e in found)
            both = [bounds.bounds[e.name] for e in found]
            widths = [50 * (b.high - b.low) / e.predicted for b, e in zip(both, found, strict=True)]
            wide = together(setup, run, [e.name for e in found])
            cells += [f"{hits} of {len(found)}", f"±{mean(widths):.1f} %", f"±{wide:.1f} %"]
            inside[gpu] += hits
            judged[gpu] += len(found)
        rows.append(cells)
    total = ["all"]
    for gpu in RUNS:
        share = 100 * inside[gpu] / judged[gpu]
        total += [f"{inside[gpu]} of {judged[gpu]}: {share:.0f} %", "", ""]
    rows.append(total)
    header = ["table thinned"]
    for gpu in RUNS:
        header += [f"{gpu}: within", "mean width", "all erring at once"]
    return markdown(header, rows)


def seen_as(measured: Measured, run: Run) -> Metrics:
    """A run's metrics, sampled as the measured run was."""
    return values_of(side_by_side(measured, run)[1])
