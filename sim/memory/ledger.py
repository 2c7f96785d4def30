"""Where a device's memory goes. Sizing and simulation both take their KV budget from here."""

from dataclasses import dataclass

from sim.hardware import Device
from sim.memory.activations import activation_bytes
from sim.memory.padding import padding_bytes
from sim.memory.profiled import FITTED, ProfiledMemory, captured_graphs, communication_bytes
from sim.model.geometry import Model
from sim.model.kv_formats import kv_format
from sim.model.layers import KvFormat
from sim.policy.manager import Pool, Stored
from sim.units import gib
from workloads.errors import InputError


@dataclass(frozen=True, slots=True)
class Line:
    """A named part of a device's memory, and how its size came about."""

    name: str
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """All of one GPU's memory. The lines sum to it exactly; the last one is the KV budget."""

    model: Model
    device: Device
    tp: int
    kv: KvFormat
    lines: tuple[Line, ...]

    @property
    def kv_bytes(self) -> int:
        """The KV budget of one GPU."""
        return self.lines[-1].size_bytes

    @property
    def token_bytes(self) -> int:
        """KV bytes of a token on one GPU, every layer keeping it."""
        return self.model.kv_bytes_per_token(self.kv, self.tp)

    def pool(self, max_model_len: int | None = None) -> Pool:
        """The memory a policy manages. Without a longest context the model's own holds."""
        longest = self.model.max_position_embeddings if max_model_len is None else max_model_len
        groups, kv, tp = self.model.groups, self.kv, self.tp
        states = self.model.states
        pool = Pool(self.kv_bytes, self.token_bytes, longest, groups=groups, tp=tp, states=states)
        return pool.storing(tuple(Stored(*group.stored(kv, tp)) for group in groups))


def kv_budget(
    model: Model,
    device: Device,
    *,
    tp: int = 1,
    gpu_memory_utilization: float = 0.9,
    kv_free_fraction: float | None = None,
    kv_cache_memory_bytes: int | None = None,
    activation_reserve_bytes: int | None = None,
    weight_memory_bytes: int | None = None,
    non_torch_bytes: int | None = None,
    cuda_graph_bytes: int | None = None,
    all_reduce_bytes: int | None = None,
    max_num_batched_tokens: int = 2048,
    max_num_seqs: int = 256,
    expert_ranks: int = 1,
    kv_dtype: str = "auto",
    profiled: ProfiledMemory = FITTED,
) -> Ledger:
    """What is left for KV on each of `tp` equal GPUs, and what took the rest.

    Of `expert_ranks` data-parallel ranks each holds its share of the routed experts.

    What isn't given in bytes is what an engine of those rules (`profiled`) would measure.

    Three ways to say how much KV there is, which are not the same number:
    `gpu_memory_utilization` is a fraction of the device's *total* memory for everything (vLLM);
    `kv_free_fraction` is a fraction of what weights and reserves leave *free* (TensorRT-LLM's
    free_gpu_memory_fraction); `kv_cache_memory_bytes` gives the budget itself.

    Raises InputError in one line where the model doesn't fit or the GPUs can't divide it.
    """
    _check_fraction("--gpu-memory-utilization", gpu_memory_utilization)
    if kv_free_fraction is not None:
        _check_fraction("--kv-free-fraction", kv_free_fraction)
        if kv_cache_memory_bytes is not None:
            raise InputError("--kv-free-fraction and --kv-cache-memory: expected one of them")
    for option, size, least in (
        ("--kv-cache-memory", kv_cache_memory_bytes, 1),
        ("--activation-reserve", activation_reserve_bytes, 0),
        ("--weight-memory", weight_memory_bytes, 0),
        ("--non-torch-memory", non_torch_bytes, 0),
        ("--cuda-graph-memory", cuda_graph_bytes, 0),
        ("--communication-memory", all_reduce_bytes, 0),
    ):
        if size is not None and size < least:
            raise InputError(f"{option} {size} B: expected at least {least}")
    _check_division(model, tp)
    steps = (max_num_batched_tokens, max_num_seqs)
    taken = _taken(model, (tp, expert_ranks), activation_reserve_bytes, steps, profiled)
    if weight_memory_bytes is not None:
        taken[0] = Line("weights", weight_memory_bytes, "given by --weight-memory")
    elif profiled.pads:
        taken[1:1] = _some("padding", *padding_bytes(model, device, tp, expert_ranks))
    context = (profiled.context_bytes, profiled.context_why)
    given = ("given by --non-torch-memory",)
    taken.append(
        Line("CUDA context", *(context if non_torch_bytes is None else (non_torch_bytes, *given)))
    )
    if cuda_graph_bytes is not None:
        taken += _some("CUDA graphs", cuda_graph_bytes, "given by --cuda-graph-memory")
    else:
        graphs = captured_graphs(max_num_seqs)
        why = f"{graphs} graphs × {profiled.graph_bytes:,} B"
        taken += _some("CUDA graphs", graphs * profiled.graph_bytes, why)
    if all_reduce_bytes is not None:
        taken += _some("communication", all_reduce_bytes, "given by --communication-memory")
    elif profiled.communicates:
        taken += _some("communication", *communication_bytes(device, tp))
    total = device.memory_bytes
    held = sum(line.size_bytes for line in taken)
    left = total - held
    if kv_cache_memory_bytes is not None:
        kv, why = kv_cache_memory_bytes, "given by --kv-cache-memory"
        unused_why = "left over"
    elif kv_free_fraction is not None:
        kv, why = int(left * kv_free_fraction), f"{kv_free_fraction:g} of what is free"
        unused_why = f"{1 - kv_free_fraction:g} of what is free"
    else:
        usable = int(total * gpu_memory_utilization)
        kv = usable - held
        why = f"{usable:,} usable − {held:,} taken"
        unused_why = f"device × (1 − {gpu_memory_utilization:g})"
    _check_fit(model, device, taken, kv, total - held - kv, expert_ranks)
    unused = Line("not used", total - held - kv, unused_why)
    return Ledger(
        model, device, tp, kv_format(model, kv_dtype), (unused, *taken, Line("KV cache", kv, why))
    )


def _some(name: str, size_bytes: int, why: str) -> list[Line]:
    """A line of that size, unless it is nothing."""
    return [Line(name, size_bytes, why)] if size_bytes else []


def _taken(
    model: Model,
    gpus: tuple[int, int],
    reserve_bytes: int | None,
    steps: tuple[int, int],
    profiled: ProfiledMemory,
) -> list[Line]:
    """Weights, rotary table and activation reserve on one of `gpus`: those that a model is divided
    over, and ranks that share its experts."""
    tp, ranks = gpus
    per_gpu = f", on each of {tp} GPUs" if tp > 1 else ""
    per_gpu += f", experts divided over {ranks} ranks" if ranks > 1 else ""
    why = f"{model.parameters:,} parameters{per_gpu}"
    least, most = model.weights.range_bytes()
    if least != most:
        why += f"; on all GPUs somewhere from {gib(least)} to {gib(most)}"
    weights = Line("weights", model.weight_bytes(tp, ranks), why)
    lines = [weights]
    if table := model.rotary_table_bytes():
        factors = (model.max_position_embeddings, model.rotary_dim, model.dtype_bytes)
        why = "{:,} positions × {} × {} B".format(*factors)
        lines.append(Line("rotary table", table, why))
    if reserve_bytes is not None:
        lines.append(Line("activations", reserve_bytes, "given by --activation-reserve"))
    else:
        lines.append(Line("activations", *activation_bytes(model, *steps, tp, profiled)))
    return lines


def _check_fraction(option: str, value: float) -> None:
    if not 0 < value <= 1:
        raise InputError(f"{option} {value:g}: expected more than 0 and at most 1")


def _check_division(model: Model, tp: int) -> None:
    if tp < 1 or model.num_heads % tp:
        raise InputError(
            f"--tp {tp}: expected a positive divisor of {model.name}'s {model.num_heads} heads"
        )
    for group in model.groups:
        if not group.latent and group.kv_heads % tp and tp % group.kv_heads:
            raise InputError(
                f"--tp {tp}: {model.name}'s {group.kv_heads} KV heads are neither divided nor "
                "repeated evenly; expected a divisor or a multiple"
            )


def _check_fit(
    model: Model, device: Device, taken: list[Line], kv: int, unused: int, ranks: int
) -> None:
    """Both the KV budget and what is left over must exist."""
    if kv > 0 and unused >= 0:
        return
    parts = " + ".join(f"{line.name} {gib(line.size_bytes)}" for line in taken)
    asked = f" + KV cache {gib(kv)}" if unused < 0 < kv else ""
    usable = device.memory_bytes - max(unused, 0)
    more = ", a higher --tp"
    if ranks > 1:  # of one GPU each: --tp is refused beside them, and no rank holds less than one
        experts = model.weights.expert_count
        most = experts and ranks >= experts
        more = "" if most else f", a higher --data-parallel that divides its {experts} experts"
    expected = f"a larger --gpu{more} or fewer bytes a weight"
    if asked and sum(line.size_bytes for line in taken) < device.memory_bytes:
        expected = "a smaller --kv-cache-memory"
    raise InputError(
        f"{model.name} doesn't fit: {parts}{asked} against {gib(usable)} usable of "
        f"{gib(device.memory_bytes)} on {device.name}; expected {expected}"
    )
