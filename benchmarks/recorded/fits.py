"""What fitting finds on the shipped runs, and what it is worth on requests it has not seen."""

import numpy as np

from benchmarks.recorded.markdown import markdown
from benchmarks.recorded.replay import RUNS, Change, changed, reduce
from benchmarks.recorded.tables import OLD_REDUCE
from sim.cost.kernels.profile import find_profile
from sim.measured.fit import fit, request_residuals
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.run.simulation import Setup, execute

CASES = {
    "RTX 4090": (("kernel_time",), Change(meta={"kernel_time": None})),
    "2 × RTX PRO 6000, sums in two regimes": (
        ("all_reduce_large_latency", "all_reduce_large_bandwidth"),
        Change(without_rows=("all_reduce",), meta=reduce(*OLD_REDUCE)),
    ),
    "2 × RTX PRO 6000, its sums kept": (("kernel_time",), Change()),
}


def fits() -> str:
    """Fitted values, and errors of the second half by what the first half tells."""
    rows = []
    for label, (names, change) in CASES.items():
        name, device, profile = RUNS[label.partition(",")[0]]
        measured = read_measured(name)
        start = changed(find_profile(profile), change)
        setup = prediction(measured, gpu=device, cost="table", profile=start)
        found, _ = fit(measured, setup, list(names))
        early = np.arange(len(measured.trace)) < len(measured.trace) // 2
        _, half = fit(measured, setup, list(names), early)
        numbers = ", ".join(f"{f.name} {f.value:.3g} ± {f.half_width:.1g}" for f in found)
        rows.append([label, numbers, _errors(measured_of=name, setup=half, mask=~early)])
    header = ["fitted on", "parameters", "second half from the first: TTFT / TPOT / E2E, %"]
    return markdown(header, rows)


def _errors(
    *, measured_of: str, setup: Setup, mask: "np.ndarray[tuple[int], np.dtype[np.bool_]]"
) -> str:
    measured = read_measured(measured_of)
    late = request_residuals(measured, execute(setup), mask)
    first, last = late[: len(late) // 2], late[len(late) // 2 :]
    arrival, output = measured.trace.arrival_s[mask], measured.output_tokens[mask]
    ttft = measured.first_token_s[mask] - arrival
    e2e = measured.last_token_s[mask] - arrival
    gaps = np.maximum(output - 1, 1)
    real = ttft.mean(), ((e2e - ttft) / gaps).mean(), e2e.mean()
    wrong = first.mean(), ((last - first) / gaps).mean(), last.mean()
    return " / ".join(f"{100 * w / r:+.1f}" for w, r in zip(wrong, real, strict=True))
