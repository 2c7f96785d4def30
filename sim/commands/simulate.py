"""`kvtwin simulate`: replay a trace through policies, write run folders and a report."""

import shlex
import sys
from json import dumps, loads
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sim.commands.plugins import load_plugins
from sim.commands.progress import Progress
from sim.engine.limits import Batching, Preemption, Victim
from sim.hardware import Device
from workloads.errors import InputError

DEFAULT_POLICIES = ("preallocation", "sliding_window:window=1024", "paging")


def simulate(
    trace: str,
    /,
    *,
    model: str,
    gpu: str | None = None,
    kv_cache_dtype: str = "auto",
    policy: Annotated[list[str] | None, Parameter(negative="")] = None,
    output: Annotated[Path, Parameter(name=["--output", "-o"])] = Path("out"),
    request_rate: float | None = None,
    first: int | None = None,
    samples: int = 1,
    tp: int = 1,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 2048,
    max_model_len: int | None = None,
    batching: Batching = "continuous",
    preemption: Preemption = "recompute",
    swap_space: str = "4GiB",
    victim: Victim = "last",
    gpu_memory_utilization: float = 0.9,
    kv_cache_memory: str | None = None,
    engine: str = "default",
    cost: str | None = None,
    profile: str | None = None,
    horizon: float | None = None,
    fast_forward: bool = True,
    jobs: int | None = None,
    report: bool = True,
    check: Annotated[bool, Parameter(negative="")] = False,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Replay a trace through one or more cache policies in simulated time.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (`kvtwin list traces`).
    model
        A preset (`kvtwin list models`) or the path of a Hugging Face config.json.
    gpu
        A device (`kvtwin list gpus`), or one by numbers:
        custom:memory=48GiB,bandwidth=1.2TB/s,flops=200TFLOP/s. May be left out with --cost.
    kv_cache_dtype
        How KV is stored: auto (the model's own type), fp16, bf16, fp8, int8 or int8_fp16.
    policy
        A cache policy with its options, such as paging:block_size=16; may be repeated. Without
        it: preallocation, sliding_window:window=1024 and paging.
    output
        Folder for one run folder a policy and the report; a folder of earlier runs is replaced.
    request_rate
        Rescale arrivals to so many requests a second.
    first
        Take only so many requests of the trace.
    samples
        Outputs asked of each prompt (OpenAI's n): so many requests that arrive together. With
        paging+prefix they share their prompt's full blocks.
    tp
        GPUs the model is divided over (tensor parallel).
    max_num_seqs
        Most requests that run at once.
    max_num_batched_tokens
        Most tokens a step computes; longer prompts are prefilled in chunks.
    max_model_len
        Longest context, prompt and output together. Default: the model's own.
    batching
        "continuous" as vLLM V1 does it, or "static", one whole batch after another.
    preemption
        Where growth lacks memory: "recompute" a request's KV later, or "swap" it to host memory.
    swap_space
        Host memory per GPU for swapped KV. A request that finds no room there is recomputed.
    victim
        Who gives way: the request admitted "last", or the one of "longest" or "shortest" context.
    gpu_memory_utilization
        Share of the device's whole memory that the engine may use.
    kv_cache_memory
        Size of the KV cache itself, such as 12GiB, instead of what is left over.
    engine
        How the engine schedules and runs kernels (`kvtwin list engines`).
    cost
        roofline, from a datasheet (the default), or table, from measured
        kernel times, or a file of `kvtwin calibrate`, step times as measured.
    profile
        Kernel profile for --cost table: a shipped one (`kvtwin list profiles`) or a file.
    horizon
        Stop after so many simulated seconds; the rest stays unfinished.
    fast_forward
        Take all steps of an unchanged batch as one event. Same results, much faster.
    jobs
        Processes to run policies in. Default: every core where the work is worth starting them.
    report
        Write report.html beside the run folders.
    check
        Only list the requests that can't be served whole, and why; run nothing.
    plugin
        A Python file that defines policies (docs/adding-a-policy.md); may be repeated.
    json
        Print metrics as JSON instead of a table.
    """
    from reports.files import REPORT
    from reports.terminal import print_summary
    from sim.cost.steps.table import read_table
    from sim.run.batch import run_all
    from sim.run.checks import find_unserved, notes, summary
    from sim.run.folder import folder_name
    from sim.run.simulation import Cost, prepare, with_policy
    from sim.units import parse_bytes
    from workloads import read_trace
    from workloads.folders import replaced_folder
    from workloads.transform import first as first_requests

    load_plugins(plugin)
    labels = policy or list(DEFAULT_POLICIES)
    folders = [folder_name(label) for label in labels]
    requests = read_trace(trace)
    if first is not None:
        requests = first_requests(requests, first)
    kind: Cost | None = "table" if cost == "table" else "roofline" if cost == "roofline" else None
    table = None if cost is None or kind else read_table(Path(cost))
    device: Device | str
    if gpu is not None:
        device = gpu
    elif table is not None:
        device = table.device()
    else:
        raise InputError("--gpu: missing; expected a device, or --cost with a measured one")
    setup = prepare(
        requests,
        model=model,
        gpu=device,
        policy=labels[0],
        tp=tp,
        request_rate=request_rate,
        samples=samples,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        batching=batching,
        preemption=preemption,
        swap_space_bytes=parse_bytes(swap_space, "--swap-space"),
        victim=victim,
        kv_cache_dtype=kv_cache_dtype,
        gpu_memory_utilization=gpu_memory_utilization,
        kv_cache_memory_bytes=None
        if kv_cache_memory is None
        else parse_bytes(kv_cache_memory, "--kv-cache-memory"),
        engine=engine,
        cost=kind,
        profile=profile,
        horizon_s=horizon,
        fast_forward=fast_forward,
        cost_table=table,
    )
    setups = [with_policy(setup, label) for label in labels]
    for i, each in enumerate(setups):
        if any(each.policy == earlier.policy for earlier in setups[:i]):
            raise InputError(f"--policy {each.label}: given twice")
    for each in setups:
        each.cost()
        each.policy.manager(each.pool)  # what can't hold a token fails before anything runs
    unserved = {each.label: find_unserved(each) for each in setups}
    if check and json:
        listed = {label: [row._asdict() for row in rows] for label, rows in unserved.items()}
        print(dumps(listed, indent=1, allow_nan=False, ensure_ascii=False))
        return
    if not json:
        for note in dict.fromkeys(note for each in setups for note in notes(each)):
            print(f"note: {note}")
    if check:
        for each in setups:
            print(f"{each.label}: {summary(each, unserved[each.label])}")
            for row in unserved[each.label]:
                print(
                    f"  request {row.request}: prompt {row.prompt_tokens:,}, output "
                    f"{row.output_tokens:,} tokens, gets {row.served_tokens:,}"
                )
        return
    if not json:
        said: dict[str, list[str]] = {}
        for each in setups:
            if unserved[each.label]:
                said.setdefault(summary(each, unserved[each.label]), []).append(each.label)
        for line, whose in said.items():
            print(
                f"{'every policy' if len(whose) == len(setups) > 1 else ', '.join(whose)}: {line}"
            )
    command = shlex.join(["kvtwin", *sys.argv[1:]])
    metrics: dict[str, list[dict[str, Any]]] = {}
    warnings: dict[str, None] = {}  # in order of appearance
    with replaced_folder(output) as staged, Progress(len(setups)) as progress:
        places = [staged / folder for folder in folders]
        for label, values in run_all(setups, places, command, jobs):
            metrics[label] = values
            warnings |= dict.fromkeys(_warnings(places[labels.index(label)]))
            progress.done(label)
        if report:
            progress.say("report")
            from reports.build import write_report  # late: it loads plotly

            write_report(places, staged / REPORT)
    if json:
        written = {"output": str(output), "runs": metrics}
        print(dumps(written, indent=1, allow_nan=False, ensure_ascii=False))
        return
    print_summary(metrics)
    for warning in warnings:
        print(f"warning: {warning}")
    for reason, rows in requests.provenance.dropped.items():
        print(f"{rows:,} of {requests.provenance.rows_read:,} rows dropped: {reason}")
    print(f"runs in {output}" + (f", report: {output / REPORT}" if report else ""))


def _warnings(folder: Path) -> list[str]:
    """Where the run's cost model left what it rests on, as its run.json says."""
    written = loads((folder / "run.json").read_text(encoding="utf-8"))
    found: list[str] = written["cost"]["warnings"]
    return found
