"""`kvtwin simulate`: replay a trace through policies, write run folders and a report."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from reports.language import retold, tr
from sim.commands.plugins import load_plugins
from sim.commands.progress import Progress
from sim.run.options import RunOptions
from sim.run.simulation import Setup
from workloads.console import print_json
from workloads.errors import InputError

DEFAULT_POLICIES = ("preallocation", "sliding_window:window=1024", "paging")


def simulate(
    trace: str,
    /,
    *,
    options: Annotated[RunOptions, Parameter(name="*")],
    policy: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("out"),
    jobs: int | None = None,
    report: bool = True,
    check: Annotated[bool, Parameter(negative="")] = False,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    interval: int | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Replay a trace through one or more cache policies in simulated time.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (`kvtwin list traces`).
    policy
        A cache policy with its options, such as paging:block_size=16; may be repeated. Without
        it: preallocation, sliding_window:window=1024 and paging.
    output
        Folder for one run folder a policy and the report; a folder of earlier runs is replaced.
    jobs
        Processes to run policies in. Default: every core where the work is worth starting them.
    report
        Write report.html beside the run folders.
    check
        Only list the requests that can't be served whole, and why; run nothing.
    plugin
        A Python file that defines policies (docs/adding-a-policy.md) or cost models
        (docs/adding-a-cost-model.md); may be repeated.
    interval
        Per cent: also bounds of latencies from the kernel profile's known sources of error, such as
        90 (needs --cost table). Takes two more runs a policy.
    json
        Print metrics as JSON instead of a table.
    """
    from reports.files import REPORT
    from sim.run.batch import run_all
    from sim.run.checks import find_unserved, notes, summary
    from sim.run.folder import folder_name
    from sim.run.load import each_replay
    from sim.run.seam import check_cost, check_manager
    from sim.run.simulation import prepared, with_policy
    from workloads.arrivals import rate_note
    from workloads.folders import replaced_folder

    load_plugins(plugin, costs=options.cost is not None)
    labels = policy or list(DEFAULT_POLICIES)
    wholes = [prepared(trace, replace(one, policy=labels[0])) for one in each_replay(options)]
    requests = wholes[0].trace
    setups = [with_policy(whole, label) for label in labels for whole in wholes]
    folders = [folder_name(each.name) for each in setups]
    for i, each in enumerate(setups):
        for earlier in setups[:i]:
            if (earlier.policy, earlier.replay) == (each.policy, each.replay):
                raise InputError(_twice(earlier, each))
    for each in setups:
        # what can't hold a token, or answers what can't be true, fails before anything runs
        check_manager(each.policy, each.pool, each.label)
        check_cost(each.cost(), each.pool.token_bytes)
    unserved = {each.name: find_unserved(each) for each in setups}
    if check and json:
        listed = {label: [row._asdict() for row in rows] for label, rows in unserved.items()}
        print_json(listed)
        return
    if not json:
        for note in dict.fromkeys(note for each in setups for note in notes(each)):
            print(tr("note: {text}", text=retold(note)))
        if options.arrivals is not None and options.request_rate is not None:
            each_once = requests.arrival_s[:: options.samples]
            if unlike := rate_note(options.arrivals, options.request_rate, each_once):
                print(tr("note: {text}", text=retold(unlike)))
    if check:
        for each in setups:
            print(f"{each.name}: {summary(each, unserved[each.name])}")
            for row in unserved[each.name]:
                line = tr(
                    "request {id}: prompt {prompt}, output {output} tokens, gets {served}",
                    id=row.request,
                    prompt=f"{row.prompt_tokens:,}",
                    output=f"{row.output_tokens:,}",
                    served=f"{row.served_tokens:,}",
                )
                print(f"  {line}")
        return
    if not json:
        said: dict[str, list[str]] = {}
        for each in setups:
            if unserved[each.name]:
                said.setdefault(summary(each, unserved[each.name]), []).append(each.name)
        for line, whose in said.items():
            every = len(whose) == len(setups) > 1
            print(f"{tr('every policy') if every else tr(', ').join(whose)}{tr(': ')}{line}")
    if interval is not None:
        from sim.run.interval import expect_known  # late: few runs are bounded

        for each in setups:
            expect_known(each, interval)
    command = shlex.join(["kvtwin", *sys.argv[1:]])
    metrics: dict[str, list[dict[str, Any]]] = {}
    with replaced_folder(output) as staged, Progress(len(setups)) as progress:
        places = [staged / folder for folder in folders]
        results = run_all(setups, places, command, jobs, progress.share)
        progress.start()
        for label, values in results:
            metrics[label] = values
            progress.done(label)
        runs = []
        if report or not json:
            from reports.load import load_runs  # late, as all that is only shown

            runs = load_runs(places)
        if report:
            progress.say("report")
            from reports.build import write_report  # late: it loads plotly

            write_report(runs, staged / REPORT)
    if json:
        written = {"output": str(output), "runs": metrics}
        print_json(written)
        return
    from reports.terminal import print_outcome

    print_outcome(runs)
    if interval is not None:
        for each in setups:
            _print_interval(each, metrics[each.name], interval)
    for reason, rows in requests.provenance.dropped.items():
        print(tr("{count} of {of} rows dropped: {reason}", count=f"{rows:,}",
                 of=f"{requests.provenance.rows_read:,}", reason=retold(reason)))  # fmt: skip
    print(tr("runs in {folder}", folder=output)
          + (tr(", report: {file}", file=output / REPORT) if report else ""))  # fmt: skip


def _print_interval(setup: Setup, metrics: list[dict[str, Any]], level: int) -> None:
    """Bounds of the latencies' means and percentiles."""
    from sim.run.interval import interval

    found = interval(setup, {metric["name"]: metric["value"] for metric in metrics}, level)
    print(tr("{policy}: {level} % intervals", policy=setup.name, level=level))
    for metric in metrics:
        if metric["unit"] == "ms" and metric["name"] in found.bounds:
            low, high = found.bounds[metric["name"]]
            print(tr("  {metric}: {low} to {high} ms", metric=tr(metric["label"]),
                     low=f"{low:,.2f}", high=f"{high:,.2f}"))  # fmt: skip


def _twice(earlier: Setup, later: Setup) -> str:
    """What is wrong where two of the policies given are one."""
    if earlier.label == later.label:
        return f"--policy {later.label}: given twice"
    from sim.policy.registry import parse_policy  # late: most runs are given others

    alike = parse_policy(earlier.label) == parse_policy(later.label)
    under = "" if alike else f" under --engine {later.engine.name}"
    return f"--policy {later.label}: is the same as --policy {earlier.label}{under}, expected one"
