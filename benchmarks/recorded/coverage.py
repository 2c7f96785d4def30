"""How many measured values lie within the stated intervals, tables thinned one after another."""

from dataclasses import replace

from benchmarks.recorded.replay import RUNS
from benchmarks.recorded.tables import markdown
from sim.cost.kernels.profile import Profile, Row, find_profile
from sim.measured.comparison import compare
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.run.interval import interval, values_of
from sim.run.simulation import execute

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
            bounds = interval(setup, values_of(run), LEVEL)
            found = [e for e in compare(measured, run) if e.tolerance_pct is not None]
            hits = sum(bounds.holds(e.name, e.measured) for e in found)
            tpot = bounds.bounds["tpot_ms_mean"]
            half = 50 * (tpot.high - tpot.low) / float(run["tpot_ms_mean"] or 1)
            cells += [f"{hits} of {len(found)}", f"±{half:.1f} %"]
            inside[gpu] += hits
            judged[gpu] += len(found)
        rows.append(cells)
    total = ["all"]
    for gpu in RUNS:
        total += [f"{inside[gpu]} of {judged[gpu]}: {100 * inside[gpu] / judged[gpu]:.0f} %", ""]
    rows.append(total)
    header = ["table thinned"]
    for gpu in RUNS:
        header += [f"{gpu}: within", "TPOT's interval"]
    return markdown(header, rows)
