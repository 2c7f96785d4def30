"""`kvtwin compare-run`: replay a measured run, lay the prediction beside it, judge by tolerance."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sim.commands.server_flags import Flags, ServerFlags
from sim.commands.verdict import notes, verdict
from sim.measured.comparison import Error, Tolerance, errors, side_by_side
from sim.measured.contradictions import overridden
from sim.measured.options import Options
from sim.measured.prediction import prediction
from sim.measured.prefixes import knowledge, with_prefixes
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.run.interval import Interval, Metrics, values_of
from sim.run.interval import interval as intervals
from sim.run.simulation import Run, execute
from workloads.console import console, json_text, print_json, sheet


def compare_run(
    run_dir: str,
    /,
    *,
    model: str | None = None,
    gpu: str | None = None,
    tp: int | None = None,
    engine: str | None = None,
    cost: str | None = None,
    profile: str | None = None,
    prefixes: str | None = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    tolerance_mean: float = 1.0,
    tolerance_percentile: float = 2.0,
    interval: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    server: Flags = None,
) -> None:
    """Predict a measured run and show the signed error of every metric.

    Exits 0 if all judged metrics are within tolerance, 1 if not, 2 if the run can't be predicted.

    Parameters
    ----------
    run_dir
        Folder of meta.json, requests.jsonl and timeseries.csv, or a shipped run's name, or a JSON
        file of `vllm bench serve --save-result --save-detailed`.
    model
        Preset or config.json, where meta.json doesn't say or names no preset.
    gpu
        Device, where meta.json doesn't say.
    tp
        GPUs the model is divided over. Default: what meta.json says, else 1.
    engine
        Preset (`kvtwin list engines`). Default: the version in meta.json.
    cost
        table, roofline, or a file of step times. Default: the step times beside the record, else
        table where a profile is at hand.
    profile
        Kernel profile, shipped or a file. Default: the shipped one for model, GPU and tp.
    prefixes
        JSON lines with the ids of every prompt's full blocks, {"hash_ids": [0, 1, …]}, where the
        run's folder has no hash_ids.jsonl; or "none", to know arrivals and lengths alone.
    output
        Write both as run folders with a report.
    tolerance_mean
        Per cent for means and makespan.
    tolerance_percentile
        Per cent for percentiles and mean running.
    interval
        Per cent: also bounds within which the prediction's known sources of error leave a metric,
        such as 90. Takes two more runs.
    json
        Print JSON instead of a table.
    server
        What the server was started with.
    """
    measured = read_measured(run_dir)
    options = (server or ServerFlags()).options(measured)
    measured = with_prefixes(measured, prefixes, options.number("block_size"))
    setup = prediction(
        measured,
        model=model,
        gpu=gpu,
        tp=tp,
        engine=engine,
        cost=cost,
        profile=profile,
        options=options,
    )
    run = execute(setup)
    tolerance = Tolerance(
        tolerance_mean, tolerance_percentile, tolerance_mean, tolerance_percentile
    )
    pair = side_by_side(measured, run)
    found = errors(*pair, tolerance)
    bounds = None
    if interval is not None:
        own = values_of(pair[1])
        bounds = intervals(setup, own, interval, lambda other: seen_as(measured, other))
    if output is not None:
        _write(pair, found, output)
    if json:
        print_json(as_json(measured, run, found, options, bounds))
    else:
        _print(measured, run, found, options, bounds)
    if not all(error.within for error in found):
        sys.exit(1)


def seen_as(measured: Measured, run: Run) -> Metrics:
    """A run's metrics, sampled as the measured run was."""
    return values_of(side_by_side(measured, run)[1])


def as_json(
    measured: Measured,
    run: Run,
    found: list[Error],
    options: Options,
    bounds: Interval | None = None,
) -> dict[str, Any]:
    """What --json prints."""
    setup = run.setup
    return {
        "model": setup.model.name,
        "device": setup.device.name,
        "tp": setup.tp,
        "engine": setup.engine.name,
        "cost": run.cost.name,
        "constants": [constant._asdict() for constant in run.cost.constants],
        "warnings": list(run.cost.warnings),
        "prompts": knowledge(measured),
        "assumed": options.assumptions(setup.limits),
        "overrides": overridden(options, setup.engine.name),
        "notes": notes(options, run),
        "left_out": measured.trace.provenance.dropped,
        "predicted_preemptions": _preemptions(run),
        "measured_preemptions": measured.preemptions,
        "within": all(error.within for error in found),
        "verdict": verdict(measured, run, found, options),
        "metrics": [
            {
                **asdict(error),
                "error_pct": error.error_pct,
                "within": error.within,
                **({} if bounds is None else bounds.bounds[error.name]._asdict()),
            }
            for error in found
        ],
    }


def _print(
    measured: Measured,
    run: Run,
    found: list[Error],
    options: Options,
    bounds: Interval | None,
) -> None:
    columns = ["metric", "measured", "predicted", "unit", "error", "tolerance", ""]
    if bounds is not None:
        columns.append(f"{bounds.level} %\ninterval")
    table = sheet(*columns, right={*columns} - {"metric", "unit", ""})
    for e in found:
        error = "n/a" if e.error_pct is None else f"{e.error_pct:+.2f} %"
        allowed = "" if e.tolerance_pct is None else f"±{e.tolerance_pct:g} %"
        sign = "" if e.tolerance_pct is None else "ok" if e.within else "MISS"
        cells = [e.label, f"{e.measured:,.2f}", f"{e.predicted:,.2f}", e.unit, error, allowed, sign]
        if bounds is not None:
            low, high = bounds.bounds[e.name]
            cells.append(f"{low:,.2f} to {high:,.2f}")
        table.add_row(*cells)
    setup = run.setup
    if setup.cost_table is not None:
        source = f"step times of {setup.cost_table.created_at}"
    elif setup.profile is not None:
        source = f"profile {setup.profile.name}"
    else:
        source = "roofline, no kernel profile"
    print(f"{measured.name}: {setup.model.name} on {setup.tp} × {setup.device.name}")
    print(f"engine {setup.engine.name}, {source}; {knowledge(measured)}")
    if assumed := options.assumptions(run.setup.limits):
        print(f"assumed, for neither the record nor an option tells: {'; '.join(assumed)}")
    if changed := overridden(options, setup.engine.name):
        print(f"overrides the record: {'; '.join(changed)}")
    console().print(table)
    for reason, rows in measured.trace.provenance.dropped.items():
        print(f"{rows:,} of {measured.trace.provenance.rows_read:,} requests left out: {reason}")
    for what, series in (("requests running and waiting", "t"), ("KV use", "kv_cache_pct")):
        if not measured.series[series].any():
            print(f"{what}: not recorded")
    counted = "not recorded in the run"
    if measured.preemptions is not None:
        counted = f"{measured.preemptions} measured"
    print(f"preemptions: {_preemptions(run)} predicted, {counted}")
    if (hits := measured.meta.get("prefix_cache_hit_tokens")) is not None:
        print(
            f"tokens found in the cache: {run['prefix_hit_tokens']:,} predicted, {hits:,} measured"
        )
    if bounds is not None:
        inside = sum(bounds.holds(e.name, e.measured) for e in found)
        print(
            f"{inside} of {len(found)} measured values are within their {bounds.level} % interval"
        )
    for line in (*run.cost.warnings, *notes(options, run)):
        print(f"warning: {line}")
    print(verdict(measured, run, found, options))


def _preemptions(run: Run) -> int:
    return int(run.log.requests["preemptions"].sum())


def _write(pair: tuple[Run, Run], found: list[Error], output: Path) -> None:
    from reports.files import REPORT, VALIDATION
    from sim.run.folder import write_run
    from workloads.folders import replaced_folder

    command = shlex.join(["kvtwin", *sys.argv[1:]])
    measured, predicted = pair
    with replaced_folder(output) as staged:
        places = [staged / "predicted", staged / "measured"]
        for place, run in zip(places, (predicted, measured), strict=True):
            place.mkdir()
            write_run(run, place, command)
        from reports.build import write_report  # late: it loads plotly

        judged = staged / VALIDATION
        judged.write_text(json_text(_judged(found)), encoding="utf-8")
        write_report(places, staged / REPORT, validation=judged)


def _judged(found: list[Error]) -> dict[str, Any]:
    """The errors as `kvtwin validate` writes them, so that one page shows both."""
    return {
        "schema_version": 1,
        "passed": all(error.within for error in found),
        "repeats": 1,
        "rows": [
            {
                "policy": "predicted",
                "name": error.name,
                "label": error.label,
                "unit": error.unit,
                "predicted": error.predicted,
                "measured": error.measured,
                "error_percent": error.error_pct,
                "spread_percent": None,
                "tolerance_percent": error.tolerance_pct,
                "passed": None if error.tolerance_pct is None else error.within,
            }
            for error in found
        ],
    }
