"""`kvtwin fit`: a few named parameters from a measured run, and what they are worth elsewhere."""

from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from reports.request_times import request_latencies
from sim.commands.server_flags import Flags, ServerFlags
from sim.measured.contradictions import overridden
from sim.measured.fit import Fitted, fit, with_parameters
from sim.measured.log import measured_log
from sim.measured.prediction import prediction
from sim.measured.prefixes import with_prefixes
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.run.metrics import LATENCIES
from sim.run.simulation import Setup, execute
from workloads.console import print_json
from workloads.errors import InputError

COMPARED = ("ttft", "tpot", "e2el")


def fit_run(
    run_dir: str,
    /,
    *,
    parameter: Annotated[list[str] | None, Parameter(negative="")] = None,
    predict: str | None = None,
    predict_gpu: str | None = None,
    model: str | None = None,
    gpu: str | None = None,
    tp: int | None = None,
    engine: str | None = None,
    profile: str | None = None,
    prefixes: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    server: Flags = None,
) -> None:
    """Fit parameters of the kernel table to a measured run, and report held-out errors.

    They are fitted on all requests, then again on the first half by arrival, which predicts the
    second. What lengths alone don't tell, such as shared prompts, goes into the parameters.

    Parameters
    ----------
    run_dir
        A measured run, as `compare-run` takes it.
    parameter
        kernel_overlap_s, host_overhead_s, all_reduce_large_latency and so on; may be repeated.
        Default: all_reduce_large_latency and _bandwidth with several GPUs whose sums the profile
        has no times of, else host_overhead_s.
    predict
        Another measured run to predict with what was fitted.
    predict_gpu
        Its device, where its meta.json doesn't say.
    model
        As in compare-run.
    gpu
        As in compare-run.
    tp
        As in compare-run.
    engine
        As in compare-run.
    profile
        As in compare-run.
    prefixes
        As in compare-run.
    json
        Print JSON instead of text.
    server
        What the server was started with.
    """
    measured = read_measured(run_dir)
    options = (server or ServerFlags()).options(measured)
    measured = with_prefixes(measured, prefixes, options.number("block_size"))
    setup = prediction(
        measured, model=model, gpu=gpu, tp=tp, engine=engine, cost="table", profile=profile,
        options=options,
    )  # fmt: skip
    names = parameter or fitted_by_default(setup)
    fitted, best = fit(measured, setup, names)
    everyone = np.ones(len(measured.trace), dtype=bool)
    early = np.arange(len(everyone)) < len(everyone) // 2
    _, half = fit(measured, setup, names, early)
    result: dict[str, Any] = {
        "overrides": overridden(options, setup.engine.name),
        "parameters": [asdict(each) for each in fitted],
        "errors_pct": {
            "before": _errors(measured, setup, everyone),
            "fitted on all": _errors(measured, best, everyone),
            "second half, fitted on the first": _errors(measured, half, ~early),
        },
    }
    if predict is not None:
        other = read_measured(predict)
        target = prediction(other, gpu=predict_gpu, engine=engine, cost="table")
        moved = with_parameters(target, {each.name: each.value for each in fitted})
        everyone = np.ones(len(other.trace), dtype=bool)
        result["errors_pct"][f"{other.name}, predicted"] = _errors(other, moved, everyone)
    if json:
        print_json(result)
        return
    if changed := overridden(options, setup.engine.name):
        print(f"overrides the record: {'; '.join(changed)}")
    for each in fitted:
        print(_line(each))
    for label, errors in result["errors_pct"].items():
        print(f"{label}: " + ", ".join(f"{k} {v:+.2f} %" for k, v in errors.items()))
    print("intervals are 95 %, requests taken as independent: too narrow, for they queue")


def fitted_by_default(setup: Setup) -> list[str]:
    """Sums over GPUs where there are any that the profile has no times of, else the host's work."""
    if setup.tp > 1 and setup.profile is not None and "all_reduce" not in setup.profile.rows:
        return ["all_reduce_large_latency", "all_reduce_large_bandwidth"]
    return ["host_overhead_s"]


def _line(each: Fitted) -> str:
    return f"{each.name}: {each.value:.4g} ± {each.half_width:.2g} (was {each.start:.4g})"


def _errors(measured: Measured, setup: Setup, mask: "np.ndarray[Any, Any]") -> dict[str, float]:
    """Of the means of TTFT, TPOT and E2E over the chosen requests, per cent."""
    run = execute(setup)
    real, guess = (
        request_latencies({name: column[mask] for name, column in log.requests.items()})
        for log in (measured_log(measured, 1), run.log)
    )
    means = {name: (np.nanmean(real[name]), np.nanmean(guess[name])) for name in COMPARED}
    if min(mean for mean, _ in means.values()) <= 0:
        raise InputError(f"{measured.name}: latencies of zero, expected times above it")
    return {LATENCIES[name][0]: float(100 * (b / a - 1)) for name, (a, b) in means.items()}
