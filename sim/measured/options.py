"""What a measured server was started with: from its record, its start-up log or the command line.

Names are vLLM's own (`max_num_seqs`, `enable_prefix_caching`). What a prediction can't honour is
refused by name: a number for another engine than the measured one would be worse than none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sim.engine.limits import Limits
from sim.measured.run import Measured
from workloads.errors import InputError

ALIASES = {
    "cache_dtype": "kv_cache_dtype",
    "max_seq_len": "max_model_len",
    "num_gpu_blocks_override": "num_gpu_blocks",
    "tp_size": "tensor_parallel_size",
    "dp_size": "data_parallel_size",
    "pp_size": "pipeline_parallel_size",
    "policy": "scheduling_policy",
}
PARTS = (
    "scheduler_config",
    "cache_config",
    "parallel_config",
    "model_config",
    "compilation_config",
)
"""Of `resolved_config`, a record of every setting that vLLM arrived at."""

LIMITS = ("max_num_seqs", "max_num_batched_tokens")
"""Where nobody tells, they are the engine preset's own on the device."""

ONE = {
    "data_parallel_size": "several engines, of which a record doesn't tell who served what,",
    "pipeline_parallel_size": "layers spread over stages",
    "prefill_context_parallel_size": "a prompt spread over GPUs",
    "decode_context_parallel_size": "a context spread over GPUs",
    "nnodes": "GPUs of several machines",
    "max_num_partial_prefills": "several long prompts read at once",
}
"""Counts of which nothing but one is modelled, and what more would be."""

OFF = {
    "enable_expert_parallel": "experts spread over GPUs",
    "speculative_config": "speculative decoding",
    "speculative_model": "speculative decoding",
    "num_speculative_tokens": "speculative decoding",
    "kv_transfer_config": "KV moved between engines",
    "kv_offloading_size": "KV offloaded to the host",
    "cpu_offload_gb": "weights on the host",
    "enable_dbo": "two batches overlapped",
    "enable_lora": "adapters",
    "lora_config": "adapters",
    "enable_eplb": "experts moved between GPUs",
    "ubatch_size": "batches cut in two",
    "scheduler_cls": "a scheduler of somebody's own",
    "kv_sharing_fast_prefill": "layers left out of prefill",
    "kv_cache_dtype_skip_layers": "layers whose KV is of another type than the others'",
    "disable_sliding_window": "layers with windows cut to them",
    "quant_config": "matrix products in another type than the model's config.json names",
    "quantization": "matrix products in another type than the model's config.json names",
}
"""Switches of which nothing but off is modelled."""


@dataclass(frozen=True, slots=True)
class Options:
    """Values by vLLM's name, and who told them."""

    values: dict[str, Any]
    origins: dict[str, str]
    recorded: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """What the record says by itself: who, and the value."""

    def __getitem__(self, name: str) -> Any:
        """The value, None where nobody tells."""
        return self.values.get(name)

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number. Raises InputError naming who told something else."""
        value = self.values.get(name)
        if value is None:
            return default
        try:
            if int(value) != float(value):
                raise ValueError
            return int(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.origins[name]}: {name} is {value!r}, expected a whole number"
            ) from None

    def share(self, name: str, default: float) -> float:
        """A number. Raises InputError naming who told something else."""
        value = self.values.get(name, default)
        try:
            return float(value)
        except (TypeError, ValueError):
            raise InputError(
                f"{self.origins[name]}: {name} is {value!r}, expected a number"
            ) from None

    def assumptions(self, limits: Limits) -> list[str]:
        """In words: what nobody tells, and is taken to be so under these limits."""
        taken = [f"{name} {getattr(limits, name):,}" for name in LIMITS if self[name] is None]
        if self["num_gpu_blocks"] is None:
            taken.append("KV blocks by the memory ledger")
        if self["max_model_len"] is None:
            taken.append("max_model_len of the model")
        if self["enable_prefix_caching"] is None:
            taken.append("prefix caching as the engine's default")
        return taken


def server_options(measured: Measured, *given: tuple[str, Mapping[str, Any]]) -> Options:
    """Of the record, then of each (who, values) given; later ones win, None tells nothing.

    Raises InputError in one line for a server that isn't modelled.
    """
    meta = measured.meta
    record = "meta.json" if measured.folder else measured.trace.provenance.source
    resolved = meta.get("resolved_config") or {}
    sources: list[tuple[str, Mapping[str, Any]]] = [
        (record, resolved.get(part) or {}) for part in PARTS
    ]
    sources += [(record, {k: resolved.get(k) for k in OFF})]
    sources += [(record, meta), (record, meta.get("kv_cache") or {})]
    sources += [(record, measured.engine_options), *given]
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    recorded: dict[str, tuple[str, Any]] = {}
    for who, part in sources:
        for key, value in part.items():
            name = key.lstrip("-").replace("-", "_")
            name = ALIASES.get(name, name)
            if value == "auto" and name in values and who == record:
                continue  # what it was resolved to stands already
            if value is not None:
                values[name], origins[name] = value, who
                if who == record:
                    recorded[name] = who, value
    options = Options(values, origins, recorded)
    refuse_unmodelled(measured.name, options)
    return options


def refuse_unmodelled(name: str, options: Options) -> None:
    """Raise InputError for the first setting that changes times in a way nobody models here."""
    for key, what in ONE.items():
        if (options.number(key) or 1) > 1:
            raise InputError(
                f"{name}: {options.origins[key]} says {key} {options[key]}, and {what} are not "
                "modelled; expected 1"
            )
    for key, what in OFF.items():
        value = options[key]
        if value and str(value).lower() not in ("none", "null", "false", "0", "[]"):
            raise InputError(
                f"{name}: {options.origins[key]} says {key} {_short(value)}, and {what} are not "
                "modelled; expected none"
            )
    if options["enable_chunked_prefill"] is False:
        raise InputError(f"{name}: chunked prefill is off, which is not modelled; expected on")
    if str(options["scheduling_policy"] or "fcfs") != "fcfs":
        raise InputError(
            f"{name}: scheduling policy {options['scheduling_policy']} is not modelled; "
            "expected fcfs"
        )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
