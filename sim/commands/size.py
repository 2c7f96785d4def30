"""`kvtwin size` and `kvtwin list models|gpus`."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sim.commands.plugins import load_plugins
from sim.commands.size_json import bounds_json, sizing_json
from sim.commands.size_text import (
    bounds_text,
    ledger_text,
    longest_why,
    position_note,
    sizing_text,
)
from sim.hardware import DEVICES, find_device
from sim.memory.bounds import capacity_bounds
from sim.memory.capacity import (
    Curve,
    binding,
    curve,
    in_8_bits,
    lengths,
    next_larger,
    requests_now,
    would_buy,
)
from sim.memory.latent_blocks import latent_note
from sim.memory.ledger import Ledger
from sim.memory.sizing import Sizing, size_policy
from sim.memory.vllm_blocks import cut_blocks
from sim.model.presets import find_model, model_names
from sim.policy.paging import Paging
from sim.policy.registry import parse_policy
from sim.policy.spec import Policy
from sim.run.engine_presets import NEWEST, Engine
from sim.run.ledgers import resolved
from sim.run.options import EngineOptions
from sim.run.seam import check_manager, told_by
from sim.units import gib, parse_bytes
from workloads.console import console, print_json, sheet
from workloads.errors import InputError

Json = Annotated[bool, Parameter(name="--json", negative="")]
Several = Parameter(negative_iterable="", consume_multiple=True)


def size(
    *,
    gpu: str,
    options: Annotated[EngineOptions, Parameter(name="*")],
    context: Annotated[tuple[int, ...], Several],
    policy: Annotated[tuple[str, ...], Several] = ("paging:block_size=16",),
    max_model_len: int | None = None,
    kv_free_fraction: float | None = None,
    activation_reserve: str | None = None,
    weight_memory: str | None = None,
    non_torch_memory: str | None = None,
    cuda_graph_memory: str | None = None,
    communication_memory: str | None = None,
    swap_space: str | None = None,
    interval: int | None = None,
    data_parallel: int = 1,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    json_output: Json = False,
) -> None:
    """Say where a GPU's memory goes and how many requests of a length fit.

    Parameters
    ----------
    gpu
        A device's name (kvtwin list gpus), or
        custom:memory=48GiB,bandwidth=1.2TB/s,flops=200TFLOP/s.
    context
        Tokens of a request, prompt and output together; give several for a mix.
    policy
        A cache policy with its options; give several to compare.
    max_model_len
        Longest context the engine accepts; by default the longest --context.
    kv_free_fraction
        Instead: fraction for KV of the memory that weights and reserves leave free.
    activation_reserve
        Memory kept for activations, with its unit; by default a stated model's estimate.
    weight_memory
        Memory that weights take on a GPU, with its unit, as your engine logs it.
    non_torch_memory
        CUDA context, handles and workspaces, with its unit; by default as --engine has it.
    cuda_graph_memory
        Memory that captured graphs take of the budget, with its unit; by default likewise.
    communication_memory
        NCCL's and all-reduce buffers, with their unit; by default likewise.
    swap_space
        Host memory per GPU for preempted blocks, with its unit.
    interval
        Per cent: also bounds of the KV budget and of requests at once, as far as budgets foretold
        were off those that engines logged, such as 90.
    data_parallel
        Engines, each on one GPU, that hold a model's experts together (simulate --data-parallel):
        what one of them holds.
    plugin
        A Python file that defines policies; may be repeated.
    output
        Write a page with the capacity curve: requests at once against context.
    json_output
        Print JSON, all sizes in integer bytes and tokens.
    """
    load_plugins(plugin)
    engine = resolved(options, find_device(gpu, memory_alone=True))
    preset, seqs, tokens = engine.engine, engine.max_num_seqs, engine.max_num_batched_tokens
    engine.check_limits(max_model_len)
    if data_parallel != 1:
        from sim.run.lockstep import refuse_ranks  # late: few models are divided so

        refuse_ranks(data_parallel, engine.model, options.tp)
    make = partial(
        engine.ledger,
        expert_ranks=data_parallel,
        kv_free_fraction=kv_free_fraction,
        activation_reserve_bytes=_bytes("--activation-reserve", activation_reserve),
        weight_memory_bytes=_bytes("--weight-memory", weight_memory),
        non_torch_bytes=_bytes("--non-torch-memory", non_torch_memory),
        cuda_graph_bytes=_bytes("--cuda-graph-memory", cuda_graph_memory),
        all_reduce_bytes=_bytes("--communication-memory", communication_memory),
    )
    ledger = make()
    if not context:
        raise InputError("--context: expected at least one length, in tokens")
    longest = max(context) if max_model_len is None else max_model_len
    pool = ledger.pool(longest)
    swap_bytes = _bytes("--swap-space", swap_space) or 0
    asked = [preset.sizes(spec, ledger.model) for spec in policy]
    sizings: list[Sizing] = []
    refusals: dict[str, str] = {}
    for spec, parsed in [(spec, parse_policy(spec)) for spec in asked]:
        try:
            check_manager(parsed, pool, spec)
            with told_by(parsed, spec):
                sizings.append(size_policy(parsed, spec, pool, context, swap_bytes))
        except InputError as error:
            refusals[spec] = str(error)  # said beside the policies that can be compared
    if not sizings:
        raise InputError(next(iter(refusals.values()), "--policy: expected at least one"))
    first, largest = sizings[0], max(context)
    chosen = parse_policy(first.policy)
    with told_by(chosen, first.policy):
        binds = binding(requests_now(chosen, ledger, largest, longest), seqs, largest)
        larger = None
        if data_parallel == 1:
            larger = next_larger(lambda more: make(tp=more), options.tp)
        buys = list(would_buy(chosen, ledger, largest, longest, larger))
    whose = first.policy if len(sizings) > 1 else ""
    bounds = None
    if interval is not None:
        given, each = options.kv_cache_memory is not None, []
        for name in (sizing.policy for sizing in sizings):
            with told_by(parse_policy(name), name):
                each.append(
                    capacity_bounds(ledger, [name], context, longest, level=interval, given=given)
                )
        together = {at: ends for one in each for at, ends in one.requests.items()}
        bounds = replace(each[0], requests=together)
    if output is not None:
        from sim.commands.size_page import write_page  # late: it loads plotly

        curves = _curves(ledger, sizings, longest, context)
        write_page(output, ledger, curves, binds, buys, whose, data_parallel)
    blocks = _vllm(ledger, chosen, longest, preset, tokens)
    if json_output:
        found = (
            sizing_json(ledger, sizings, refusals)
            | {
                "data_parallel": data_parallel,
                "max_model_len": longest,
                "max_model_len_why": longest_why(ledger, max_model_len),
                "binds": binds,
                "binds_policy": first.policy,
                "would_buy": [{"change": change, "requests": number} for change, number in buys],
                "vllm_0.32": blocks,
            }
            | ({} if bounds is None else {"interval": bounds_json(bounds)})
        )
        print_json(found)
        return
    print(ledger_text(ledger, data_parallel))
    print(f"max-model-len  {longest:,} tokens: {longest_why(ledger, max_model_len)}")
    for sizing in sizings:
        print(f"\n{sizing_text(ledger, sizing)}")
    for spec, reason in refusals.items():
        print(f"\n{spec}\n  refused: {reason}")
    if blocks:
        print(
            f"\nvLLM 0.32 cuts the same memory into {blocks['blocks']:,} blocks for "
            f"{blocks['groups']} block table{'s' * (blocks['groups'] > 1)}, and logs:\n"
            f"  KV cache size: {blocks['tokens']:,} tokens\n"
            f"  Maximum concurrency for {longest:,} tokens per request: "
            f"{blocks['concurrency']:.2f}x"
        )
        if ledger.model.kv_window_bytes():
            print(
                f"  It counts {blocks['in_flight']:,} tokens in flight for every request, the most "
                "that steps may hold beside its windows; above, requests hold what they wrote."
            )
    if bounds is not None:
        print(f"\n{bounds_text(bounds)}")
    if preset.device_limits:
        print(f"\n--engine {options.engine}: {seqs:,} requests at once, {tokens:,} tokens a step")
    print(f"\n{whose}: {binds}" if whose else f"\n{binds}")
    for change, number in buys:
        print(f"  {change}: {number:,} at once")
    if output is not None:
        print(f"page: {output}")
    latent = (latent_note(ledger.model, parse_policy(one.policy)) for one in sizings)
    for note in filter(None, (position_note(ledger, sizings), *dict.fromkeys(latent))):
        print(f"\n{note}")


def _curves(
    ledger: Ledger, sizings: list[Sizing], longest: int, asked: tuple[int, ...]
) -> list[Curve]:
    """A curve for each policy, and for each in 8 bits where KV is wider."""
    contexts = lengths(max(longest, ledger.model.max_position_embeddings), asked)
    halved = in_8_bits(ledger)
    found = []
    for sizing in sizings:
        policy, label = parse_policy(sizing.policy), sizing.policy
        with told_by(policy, label):
            found.append(curve(policy, f"{label}, {ledger.kv.name}", ledger, contexts, longest))
            if halved is not None:
                found.append(curve(policy, f"{label}, fp8", halved, contexts, longest))
    return found


def _vllm(
    ledger: Ledger, policy: Policy, longest: int, engine: Engine, tokens: int
) -> dict[str, int | float] | None:
    """vLLM's own cut, where it is asked for or layers keep different things, under paging."""
    model = ledger.model
    differ = model.kv_window_bytes() or model.states
    asked = engine.name.startswith("vllm")
    if not isinstance(policy, Paging) or not (differ or asked):
        return None
    if asked and not engine.name.startswith(NEWEST.name):
        return None  # another version's cut
    in_flight = tokens * (1 + engine.rules.async_scheduling)  # vLLM's max_in_flight_tokens
    try:
        # where no layer attends, vLLM leaves prefix caching off
        cut = cut_blocks(ledger, policy.block_size, longest, prefix_caching=bool(model.groups))
    except InputError:
        return None
    return {
        "blocks": cut.blocks,
        "block_bytes": cut.block_bytes,
        "groups": len(cut.groups),
        "tokens": cut.tokens(longest, in_flight),
        "concurrency": cut.concurrency(longest, in_flight),
        "in_flight": in_flight,
    }


def _bytes(option: str, text: str | None) -> int | None:
    return None if text is None else parse_bytes(text, option)


def list_models(*, json_output: Json = False) -> None:
    """List the model presets with their KV cache per token.

    Parameters
    ----------
    json_output
        Print JSON.
    """
    models = {name: find_model(name) for name in model_names()}
    if json_output:
        rows = [
            {
                "name": name,
                "parameters": model.parameters,
                "weight_bytes": model.weight_bytes(),
                "token_bytes": model.kv_bytes_per_token(),
                "window_capped_token_bytes": model.kv_growth_bytes(),
                "window_capped_sequence_bytes": model.kv_window_bytes(),
                "state_bytes": model.state_bytes(),
                "max_position_embeddings": model.max_position_embeddings,
                "source": model.source,
            }
            for name, model in models.items()
        ]
        print_json(rows)
        return
    columns = ("model", "billion\nparameters", "weights", "KV B\na token", "longest", "KV layers")
    lines = []
    for name, model in models.items():
        kinds = [f"{group.layers} {group.kind}" for group in model.groups]
        kinds += [f"{state.layers} {state.kind}" for state in model.states]
        layers = ", ".join(kinds)
        token = f"{model.kv_bytes_per_token():,}"
        longest = f"{model.max_position_embeddings:,}"
        size = gib(model.weight_bytes())
        lines.append((name, f"{model.parameters / 1e9:.3g}", size, token, longest, layers))
    _print_table(columns, lines)


def list_gpus(*, json_output: Json = False) -> None:
    """List the known devices.

    Parameters
    ----------
    json_output
        Print JSON.
    """
    if json_output:
        rows = [asdict(device) for device in DEVICES.values()]
        print_json(rows)
        return
    columns = ("GPU", "memory", "GB/s", "16-bit\nTFLOP/s", "source")
    _print_table(
        columns,
        [
            (
                device.name,
                ("~" if device.memory_note else "") + gib(device.memory_bytes),
                f"{device.bandwidth_bytes_per_s / 1e9:,.0f}",
                f"{device.flops_per_s / 1e12:,.1f}",
                device.source,
            )
            for device in DEVICES.values()
        ],
    )


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    table = sheet(*columns, right=columns[1:-1])
    for row in rows:
        table.add_row(*row)
    console().print(table)
