"""The words and columns of `kvtwin size`."""

from dataclasses import replace

from sim.memory.bounds import CapacityBounds
from sim.memory.ledger import Ledger
from sim.memory.sizing import Fit, Sizing, explain, window_capped_requests
from sim.policy.registry import parse_policy
from sim.policy.spec import format_under

SCALES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def size_text(size_bytes: int) -> str:
    """`3.81 GiB`; what would be less than 0.10 GiB in MiB or KiB, so that it isn't 0.00."""
    for unit, scale in SCALES:
        if abs(size_bytes) >= 0.1 * scale:
            return f"{size_bytes / scale:,.2f} {unit}"
    return f"{size_bytes:,} B"


def longest_why(ledger: Ledger, max_model_len: int | None) -> str:
    """Where the longest context came from. `simulate` has no --context to take it from."""
    if max_model_len is not None:
        return "given by --max-model-len"
    own = ledger.model.max_position_embeddings
    return (
        f"the longest --context (simulate takes the model's own {own:,}); --max-model-len sets it"
    )


def position_note(ledger: Ledger, sizings: list[Sizing]) -> str:
    """A line where a length is beyond what the model was made for, else nothing."""
    longest = max((fit.context_tokens for sizing in sizings for fit in sizing.fits), default=0)
    made_for = ledger.model.max_position_embeddings
    if longest <= made_for:
        return ""
    return f"note: {ledger.model.name} was made for {made_for:,} positions, not {longest:,}"


def ledger_text(ledger: Ledger, ranks: int = 1) -> str:
    """The lines of a ledger with their sum, and what a token takes; of so many alike ranks'."""
    model, device, kv, tp = ledger.model, ledger.device, ledger.kv, ledger.tp
    each = f", each of {tp} GPUs" if tp > 1 else ""
    if ranks > 1:
        each = f", each of {ranks} data-parallel ranks"
    doubt = f"; {device.memory_note}" if device.memory_note else ""
    rows = [("device", device.memory_bytes, device.name + each + doubt)]
    rows += [(f"− {line.name}", line.size_bytes, line.why) for line in ledger.lines[:-1]]
    rows.append(("= KV cache", ledger.kv_bytes, ledger.lines[-1].why))
    lines = [
        f"{model.name} ({model.parameters:,} parameters) on {device.name}{each}",
        "",
        *(f"{name:<14} {size:>17,} B {size_text(size):>11}  {why}" for name, size, why in rows),
        "",
        f"KV of a token  {model.formula(kv, tp)}" + (" and GPU" if tp > 1 else ""),
    ]
    logical, physical = model.kv_bytes_per_token(kv), ledger.token_bytes * tp
    if physical != logical:
        lines.append(
            f"               {physical:,} B on all GPUs for a logical {logical:,} B: "
            "KV heads or latents are copied"
        )
    windows = model.kv_window_bytes(kv, tp)
    if windows:
        lines.append(
            f"               with windows capped: {model.kv_growth_bytes(kv, tp):,} B per token "
            f"+ {windows:,} B ({size_text(windows)}) of windows per sequence"
        )
    lines += [f"note           {note}" for note in model.notes]
    return "\n".join(lines)


def sizing_text(ledger: Ledger, sizing: Sizing) -> str:
    """One policy: its capacity, and how many requests of each length fit."""
    lines = [sizing.policy]
    if sizing.blocks is not None and sizing.cache_tokens is not None:
        lines.append(
            f"  {sizing.blocks:,} blocks × {sizing.cache_tokens // sizing.blocks} = "
            f"{sizing.cache_tokens:,} tokens{_times(ledger, sizing)}"
        )
        lines.append(
            f"  block table of the longest context: {sizing.table_bytes:,} B a sequence, "
            "outside of the cache"
        )
    elif sizing.blocks is not None and sizing.block_bytes is not None:
        lines.append(f"  {sizing.blocks:,} blocks of {sizing.block_bytes:,} B")
    if sizing.host_blocks:
        lines.append(f"  {sizing.host_blocks:,} blocks in the swap space")
    lines.append(f"  longest single request: {sizing.longest_tokens:,} tokens")
    for fit in sizing.fits:
        text = f"  requests of {fit.context_tokens:,} tokens: {fit.requests:,} fit"
        lines.append(text + (f", {_held(ledger, sizing, fit)}" if fit.requests else ""))
        if fit.requests:
            lines += [
                f"    {name:<29} {size:>17,} B {size_text(size):>11}"
                for name, size in explain(ledger.model, fit)
            ]
        capped = window_capped_requests(as_stored(ledger, sizing), fit.context_tokens)
        if ledger.model.kv_window_bytes():
            lines.append(f"    with windows capped and pages per layer group: at most {capped:,}")
    if sizing.together:
        lines.append(f"  one of each together: {_held(ledger, sizing, sizing.together)}")
    elif len(sizing.fits) > 1:
        lines.append("  one of each together: doesn't fit")
    return "\n".join(lines)


def _times(ledger: Ledger, sizing: Sizing) -> str:
    """Tokens over the longest context; with states beside tokens it can't be reached."""
    if ledger.model.states:
        return ", fewer with a state of each sequence"
    return f"; {sizing.concurrency:.2f}x at {sizing.max_model_len:,} tokens"


def as_stored(ledger: Ledger, sizing: Sizing) -> Ledger:
    """The ledger with KV as the policy stores it, where it decides that."""
    return replace(ledger, kv=format_under(parse_policy(sizing.policy), ledger.kv))


def _held(ledger: Ledger, sizing: Sizing, fit: Fit) -> str:
    """Bytes, and slots of a token over all layers, as the policy stores it.

    Windows and compressed KV take fewer slots than their tokens, landmarks more.
    """
    held, live = fit.held_bytes, fit.live_bytes
    if ledger.model.states or not sizing.payload_bytes:  # not all of it is slots of tokens
        return f"holding {size_text(held)}, {size_text(live)} of it written"
    slots, used = held // sizing.token_bytes, live // sizing.payload_bytes
    written = f"{size_text(live)} ({used:,} slots) of it written"
    return f"holding {size_text(held)} ({slots:,} slots), {written}"


def bounds_text(bounds: CapacityBounds) -> str:
    """Bounds of the KV budget, and of requests at once by policy and length."""
    low, high = (size_text(size) for size in bounds.kv_bytes)
    lines = [f"{bounds.level} % interval: KV cache {low} to {high}"]
    for (policy, tokens), (least, most) in bounds.requests.items():
        lines.append(f"  {policy}, requests of {tokens:,} tokens: {least:,} to {most:,} fit")
    return "\n".join(lines)
