"""`kvtwin calibrate`, `validate` and `doctor`: commands that need torch, checked when called."""

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from executor.device.require import require_torch
from sim.commands.plugins import load_plugins
from sim.engine.limits import Batching, Preemption, Victim
from workloads.console import json_text
from workloads.errors import InputError

if TYPE_CHECKING:
    from executor.device.machine import Machine
    from executor.validation.validate import Validation
    from sim.cost.steps.table import CostTable
    from sim.run.simulation import Setup
    from workloads.schema import Trace

DeviceKind = Literal["cpu", "cuda"]
Policies = Annotated[list[str] | None, Parameter(negative="")]
DEFAULT_POLICIES = (
    "preallocation",
    "sliding_window:window=512,sinks=4",
    "paging:block_size=16",
)


def calibrate(
    *,
    model: str,
    device: DeviceKind = "cpu",
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    policy: Policies = None,
    kv_cache_dtype: str = "auto",
    kv_cache_memory: str = "128MiB",
    max_num_seqs: int = 16,
    max_num_batched_tokens: int = 512,
    max_model_len: int | None = None,
    threads: int = 1,
) -> None:
    """Time whole steps of a model on this machine and write a cost table for the simulator.

    Parameters
    ----------
    model
        A preset (`kvtwin list models`) or the path of a Hugging Face config.json. Weights are
        random.
    device
        "cpu" or "cuda".
    output
        The file to write: JSON, described in sim/cost/steps/table.py.
    policy
        A policy to calibrate for; may be repeated. Default: preallocation, sliding_window, paging.
    kv_cache_dtype
        How KV is stored: auto (the model's own type) or int8_fp16.
    kv_cache_memory
        Size of the KV cache; longer contexts and larger batches than fit are not measured.
    max_num_seqs
        Largest batch.
    max_num_batched_tokens
        Longest chunk.
    max_model_len
        Longest context. Default: the model's own.
    threads
        CPU threads. One is timed by its own CPU time, more by the wall clock.
    """
    require_torch()
    _require_executable(model)
    from executor.device.assemble import random_llama
    from executor.device.machine import open_machine
    from executor.validation.calibrate import calibrate as measure

    machine = open_machine(device, threads)
    if not output.parent.is_dir():
        raise InputError(f"{output}: no such folder {output.parent}")
    setups = _setups(
        None,
        policy,
        machine,
        model=model,
        kv_dtypes=[kv_cache_dtype],
        kv_cache_memory=kv_cache_memory,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        cost_table=None,
    )
    table = measure(setups, machine, random_llama(setups[0].model, machine))
    output.write_text(table.model_dump_json(indent=1) + "\n", encoding="utf-8")
    print(f"{output}: {len(table.sections)} policies in {table.elapsed_s:.0f} s")


def validate(
    trace: str,
    /,
    *,
    model: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    policy: Policies = None,
    device: DeviceKind = "cpu",
    cost: Path | None = None,
    repeats: int = 5,
    first: int | None = None,
    request_rate: float | None = None,
    concurrency: int | None = None,
    users: int | None = None,
    think_time: str | None = None,
    replay: Literal["answers", "stamps"] = "answers",
    seed: int = 0,
    kv_cache_dtype: Annotated[list[str] | None, Parameter(negative="")] = None,
    kv_cache_memory: str = "128MiB",
    max_num_seqs: int = 16,
    max_num_batched_tokens: int = 512,
    max_model_len: int | None = None,
    engine: str = "default",
    batching: Batching = "continuous",
    preemption: Preemption = "recompute",
    swap_space: str = "4GiB",
    victim: Victim = "last",
    samples: int = 1,
    threads: int = 1,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Simulate a trace and execute it on this machine, compare, and judge. Exit code 1: it fails.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (`kvtwin list traces`).
    model
        A preset or the path of a Hugging Face config.json. Weights are random.
    output
        Folder for run folders (simulated and measured), the plan logs that were replayed (JSON
        lines, described in executor/plan_log.py), times of the last replay's steps (CSV; host and
        device apart), validation.json and report.html.
    policy
        A policy to validate; may be repeated. Default: preallocation, sliding_window, paging.
    device
        "cpu" or "cuda".
    cost
        A cost table of `kvtwin calibrate`. Without it each round measures its own; see docs.
    repeats
        Rounds, each of a free run and a replay; the median of their errors is judged.
    first
        Take only so many requests of the trace.
    request_rate
        Rescale arrivals to so many requests a second. Of sessions only the stamps they begin at
        follow it, turns wait for answers (see --replay).
    concurrency
        Keep so many requests in flight instead of asking at the trace's stamps.
    users
        So many users, each with one request or session at a time: ask, wait, think, ask again.
    think_time
        How long users think before each request: 10s, or exponential:10s for drawn times. Of a
        trace with sessions: before each session, whose turns keep their recorded pauses.
    replay
        Of a trace with sessions: turns wait for "answers", or come at the recorded "stamps".
    seed
        Of drawn think times.
    kv_cache_dtype
        How KV is stored: auto (the model's own type) or int8_fp16; may be repeated.
    kv_cache_memory
        Size of the KV cache.
    max_num_seqs
        Most requests that run at once.
    max_num_batched_tokens
        Most tokens a step computes.
    max_model_len
        Longest context. Default: the model's own.
    engine
        How the engine schedules (`kvtwin list engines`); one that plans a step ahead is refused.
    batching
        "continuous", or "static", one whole batch after another.
    preemption
        Where growth lacks memory: "recompute" a request's KV later, or "swap" it to host memory.
    swap_space
        Host memory for swapped KV. A request that finds no room there is recomputed.
    victim
        Who gives way: the request admitted "last", or that of "longest" or "shortest" context.
    samples
        Outputs asked of each prompt, as so many requests that arrive together.
    threads
        CPU threads. One is timed by its own CPU time, more by the wall clock.
    plugin
        A Python file that defines policies (docs/adding-a-policy.md); may be repeated.
    json
        Print the judged rows as JSON instead of a table.
    """
    require_torch()
    if repeats < 1:
        raise InputError(f"--repeats {repeats}: expected at least 1")
    _require_executable(model)
    from executor.device.assemble import random_llama
    from executor.device.machine import open_machine
    from executor.plan_log import write_log
    from executor.validation.validate import validate as compare
    from executor.validation.validate import write_times
    from reports.build import write_report
    from reports.files import PLANS, REPORT, TIMES, VALIDATION
    from reports.validation import print_rows
    from sim.cost.steps.table import read_table
    from sim.run.folder import folder_name, write_run
    from workloads import read_trace
    from workloads.folders import replaced_folder

    load_plugins(plugin)
    machine = open_machine(device, threads)
    requests = read_trace(trace)
    table = None if cost is None else read_table(cost)
    setups = _setups(
        requests,
        policy,
        machine,
        model=model,
        kv_dtypes=kv_cache_dtype or ["auto"],
        kv_cache_memory=kv_cache_memory,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        cost_table=table,
        engine=engine,
        batching=batching,
        preemption=preemption,
        swap_space=swap_space,
        victim=victim,
        samples=samples,
        first=first,
        request_rate=request_rate,
        concurrency=concurrency,
        users=users,
        think_time=think_time,
        replay=replay,
        seed=seed,
    )
    llama = random_llama(setups[0].model, machine)
    command = shlex.join(["kvtwin", *sys.argv[1:]])
    with replaced_folder(output) as staged:
        folders = []
        done: list[Validation] = []
        for setup in setups:
            outcome = compare(setup, machine, llama, repeats)
            done.append(outcome)
            name = folder_name(outcome.predicted.setup.label)
            write_log(outcome.plans, staged / f"{name}{PLANS}")
            write_times(outcome.times, staged / f"{name}{TIMES}")
            for run in (outcome.predicted, outcome.measured):
                folder = staged / f"{name}-{run.kind}"
                folder.mkdir()
                write_run(run, folder, command)
                folders.append(folder)
        content = _content(done, machine, repeats)
        text = json_text(content)
        (staged / VALIDATION).write_text(text + "\n", encoding="utf-8")
        write_report(folders, staged / REPORT, validation=staged / VALIDATION)
    if json:
        print(text)
    else:
        print_rows(content)
        for outcome in done:
            if refused := outcome.predicted["refused"]:
                label = outcome.predicted.setup.label
                rows = len(outcome.predicted.setup.trace)
                print(f"{label}: {refused:,} of {rows:,} requests never fitted")
        print(f"runs in {output}, report: {output / REPORT}")
    warnings = [
        f"{run.setup.label}: warning: {warning}"
        for run in (outcome.predicted for outcome in done)
        for warning in run.cost.warnings
    ]
    for line in warnings:
        print(line, file=sys.stderr if json else sys.stdout)
    if not content["passed"]:
        sys.exit(1)


def _content(done: "list[Validation]", machine: "Machine", repeats: int) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "passed": all(outcome.passed for outcome in done),
        "repeats": repeats,
        "machine": {
            "name": machine.identity()[0],
            "threads": machine.threads,
            "clock": machine.clock_name,
        },
        "rows": [asdict(row) for outcome in done for row in outcome.rows],
    }


def _require_executable(model: str) -> None:
    """Raises InputError for a model that no machine's executor runs: before torch is loaded, which
    takes seconds, and before anything is said about the machine."""
    from executor.device.llama_shaped import require_llama_shaped
    from sim.model.presets import find_model

    require_llama_shaped(find_model(model))


def _setups(
    trace: "Trace | None",
    policies: list[str] | None,
    machine: "Machine",
    *,
    model: str,
    kv_dtypes: list[str],
    kv_cache_memory: str,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    max_model_len: int | None,
    cost_table: "CostTable | None",
    **scheduling: Any,
) -> "list[Setup]":
    """One setup a policy and storage; what can't hold a token or be executed fails here.

    `scheduling` are options of `prepare` that say who asks when, and who is served how.
    """
    from executor.device.assemble import host_device
    from executor.device.refusals import beyond_positions, refusal
    from sim.model.presets import find_model
    from sim.run.simulation import prepare
    from sim.units import gib
    from workloads.schema import Provenance, Trace

    found, (name, memory_bytes) = find_model(model), machine.identity()
    if (weights := found.weight_bytes()) > memory_bytes:
        raise InputError(
            f"--model {model}: its weights take {gib(weights)}, {name} has {gib(memory_bytes)}; "
            "expected a smaller one"
        )
    if max_model_len is not None and (why := beyond_positions(found, max_model_len)):
        raise InputError(why)
    asked = trace is not None
    if trace is None:
        import numpy as np

        none, zero = np.array([], dtype=np.int64), np.array([], dtype=np.float64)
        trace = Trace("none", zero, none, none, Provenance("calibration", 0))
    setups = [
        prepare(
            trace,
            model=model,
            gpu=cost_table.device() if cost_table else host_device(machine),
            policy=label,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            max_model_len=max_model_len,
            kv_cache_memory=kv_cache_memory,
            kv_cache_dtype=kv_dtype,
            cost=cost_table,
            **scheduling,
        )
        for label in policies or DEFAULT_POLICIES
        for kv_dtype in kv_dtypes
    ]
    for setup in setups:
        if why := refusal(setup, machine.kind):
            raise InputError(f"--policy {setup.label}: {why}")
        if asked:
            _check_served(setup)
        setup.cost()
    return setups


def _check_served(setup: "Setup") -> None:
    """Where nothing runs, nothing can be judged. Raises InputError."""
    from sim.run.checks import find_unserved

    unserved = find_unserved(setup)
    if not any(one.served_tokens for one in unserved) and len(unserved) == len(setup.trace):
        raise InputError(
            f"--policy {setup.label}: none of {len(setup.trace):,} requests fits, so nothing would "
            f"run or be judged: {unserved[0].reason if unserved else 'the trace holds none'}"
        )


def doctor(*, device: DeviceKind | None = None) -> None:
    """Say what this machine can run and why not, and check each kernel against its reference.

    Parameters
    ----------
    device
        Check only this device. Default: all.
    """
    from executor.health.doctor import examine

    sys.exit(examine(device))
