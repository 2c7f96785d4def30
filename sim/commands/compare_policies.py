"""`kvtwin compare-policies`: the approaches side by side on one trace's requests."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from workloads.console import console, print_json, sheet


def compare_policies(
    trace: str,
    /,
    *,
    model: str,
    gpu: str,
    policy: Annotated[tuple[str, ...], Parameter(negative_iterable="")] = (),
    first: int = 1000,
    max_model_len: int | None = None,
    tp: int = 1,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Compare what cache policies keep, read and give up, on the same requests.

    Each request is served alone, so this shows what policies do to the same tokens. What a full
    cache does to latency and throughput, simulate shows.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (kvtwin list traces).
    model
        A preset (kvtwin list models) or the path of a Hugging Face config.json.
    gpu
        A device (kvtwin list gpus).
    policy
        Policies to compare; by default one for each approach of the field.
    first
        Take only so many requests of the trace.
    max_model_len
        Longest context, prompt and output together. Default: the model's own.
    tp
        GPUs the model is divided over. All sizes are per GPU.
    plugin
        A Python file that defines policies; may be repeated.
    json
        Print JSON, in bytes, instead of a table.
    """
    from sim.commands.plugins import load_plugins
    from sim.engine.limits import Limits
    from sim.hardware import find_device
    from sim.memory.approaches import APPROACHES, compare
    from sim.memory.ledger import kv_budget
    from sim.model.presets import find_model
    from sim.policy.registry import parse_policy
    from sim.run.seam import told_by, try_out
    from workloads import read_trace
    from workloads.transform import first as first_requests

    load_plugins(plugin)
    requests = first_requests(read_trace(trace), first)
    lengths = list(
        zip(requests.prompt_tokens.tolist(), requests.output_tokens.tolist(), strict=True)
    )
    ledger = kv_budget(find_model(model), find_device(gpu), tp=tp, kv_dtype="fp16")
    if max_model_len is not None:
        Limits(max_model_len=max_model_len)  # raises what `simulate` does
    pool = ledger.pool(max_model_len)
    approaches = {spec: APPROACHES.get(spec, "") for spec in policy or APPROACHES}
    rows = []
    for spec, gives_up in approaches.items():
        chosen = parse_policy(spec)
        try_out(chosen, pool, spec)
        with told_by(chosen, spec):
            rows.append(compare(chosen, spec, gives_up, pool, lengths))
    if json:
        found = [
            {
                "policy": row.policy,
                "requests": row.requests,
                "kept_bytes": row.kept_bytes,
                "metadata_bytes": row.metadata_bytes,
                "unused_bytes": row.unused_bytes,
                "read_bytes": row.read_bytes,
                "compression": row.compression,
                "compression_of_held": row.held_compression,
                "gives_up": row.gives_up,
            }
            for row in rows
        ]
        print_json(found)
        return
    numbers = ("served", "kept\nGiB", "metadata\nGiB", "unused\nGiB", "read\nGiB",
               "vs\n16-bit", "held")  # fmt: skip
    table = sheet("policy", *numbers, right=numbers)
    for row in rows:
        sizes = (row.kept_bytes, row.metadata_bytes, row.unused_bytes, row.read_bytes)
        table.add_row(
            row.policy.replace("+", "\n  +").replace(",", ",\n  "),
            f"{row.requests:,}",
            *(f"{size / 2**30:,.2f}" for size in sizes),
            f"{row.compression:.2f}x",
            f"{row.held_compression:.2f}x",
        )
    console().print(table)
    given_up = sheet("policy", "gives up")
    for row in rows:
        if row.gives_up:
            given_up.add_row(row.policy.replace("+", "\n  +"), row.gives_up)
    console().print()
    console().print(given_up)
    console().print(
        "Sums over requests at their end; reads over all decode steps; vs 16-bit: KV of all tokens "
        "÷ kept, metadata included; held: ÷ kept and unused."
    )
