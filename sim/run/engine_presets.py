"""Engines by name and version: what they decide, how they run kernels, what they keep back."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

from sim.cost.kernels.rules import KernelRules
from sim.engine.limits import Rules
from sim.hardware import Device
from sim.memory.ledger import Ledger, Line
from sim.memory.profiled import FITTED, ProfiledMemory
from sim.memory.profiled import VLLM_0_19 as PROFILED_0_19
from sim.memory.profiled import VLLM_0_32 as PROFILED_0_32
from sim.model.geometry import Model
from sim.policy.group_tables import layers_a_page
from sim.policy.paging import Paging
from sim.policy.prefix import Prefix
from sim.policy.spec import Composition, Policy
from workloads.errors import InputError
from workloads.spec import key_values, suggestion


@dataclass(frozen=True, slots=True)
class Engine:
    """One version of an engine."""

    name: str
    description: str
    rules: Rules = field(default_factory=Rules)
    kernels: KernelRules = field(default_factory=KernelRules)
    memory: ProfiledMemory = FITTED
    prefix_caching: bool = False
    """Full blocks are kept by content, and found by later and by resumed requests."""
    block_size: int = 16
    null_blocks: int = 0
    """Blocks that the engine keeps to itself as padding."""
    device_limits: bool = False
    """Limits of a step that nobody gave are those that its API server takes on the device."""
    window_groups: bool = False
    """Layers with windows have block tables of their own, over one pool with the others'."""
    oldest_first: bool = False
    """Free blocks are used again in the order in which they were let go, not blank ones first. It
    decides without shared prompts, too: who is preempted finds its own."""

    @property
    def casts(self) -> bool:
        """Whether it loads float32 checkpoints in 16 bits where no type is asked for."""
        return self.name.startswith("vllm")

    def limits(
        self, device: Device, seqs: int | None = None, tokens: int | None = None
    ) -> tuple[int, int]:
        """max_num_seqs and max_num_batched_tokens: those given, else the engine's own."""
        if not self.device_limits:
            return 256 if seqs is None else seqs, 2048 if tokens is None else tokens
        most, longest = server_limits(device)
        tokens = longest if tokens is None else tokens
        return min(most, tokens) if seqs is None else seqs, tokens

    def adapt(self, policy: Policy, label: str, model: Model) -> Policy:
        """Paging as this engine does it, where the user gave no options of his own, and blocks used
        again as it does, where he didn't say how."""
        if label == "paging":
            capped = self.window_groups and _windows_of_equal_layers(model)
            placement = Paging(self.block_size, layers="capped" if capped else "reserved")
            policy = placement + Prefix() if self.prefix_caching else placement
        if isinstance(policy, Composition) and policy.sharing == Prefix():
            reserved = isinstance(policy.base, Paging) and policy.base.layers == "reserved"
            reuse = Prefix("oldest" if self.oldest_first and reserved else "blank")
            return replace(policy, sharing=reuse)
        return policy

    def sizes(self, spec: str, model: Model) -> str:
        """The policy that `size` counts with: paging as this engine does it, unless told more."""
        plain = spec in ("paging", "paging:block_size=16")
        if plain and self.window_groups and _windows_of_equal_layers(model):
            return f"paging:block_size={self.block_size},layers=capped"
        return spec

    def block_bytes(self, model: Model, token_bytes: int) -> int:
        """Of one block, where all layers together store so many bytes of a token."""
        size = self.block_size * token_bytes
        if self.window_groups and _windows_of_equal_layers(model):
            layers = [group.layers for group in model.groups]
            size = size // sum(layers) * layers_a_page(layers)
        return size

    def adapt_ledger(self, ledger: Ledger) -> Ledger:
        """The ledger with what the engine keeps of the KV budget."""
        kept = self.null_blocks * self.block_bytes(ledger.model, ledger.token_bytes)
        if not kept:
            return ledger
        if kept >= ledger.kv_bytes:
            raise InputError(
                f"--engine {self.name}: null_blocks={self.null_blocks} keeps {kept:,} B of a KV "
                f"budget of {ledger.kv_bytes:,} B; expected fewer"
            )
        last = ledger.lines[-1]
        why = f"block 0 of {self.block_size} tokens, never handed out"
        lines = (Line("null block", kept, why), Line(last.name, last.size_bytes - kept, last.why))
        return Ledger(
            ledger.model, ledger.device, ledger.tp, ledger.kv, (*ledger.lines[:-1], *lines)
        )


VLLM_0_19 = Engine(
    "vllm-0.19",
    "vLLM 0.19, V1 engine",
    Rules(async_scheduling=True),
    memory=PROFILED_0_19,
    prefix_caching=True,
    null_blocks=1,
    oldest_first=True,
)
VLLM_0_32 = replace(
    VLLM_0_19,
    name="vllm-0.32",
    description="vLLM 0.32, the same steps (docs/conformance.md)",
    memory=PROFILED_0_32,
    device_limits=True,
    window_groups=True,
    oldest_first=False,
)
NEWEST = VLLM_0_32
DEFAULT = replace(
    NEWEST,
    name="default",
    description="the newest's steps, one planned after another; no prefix caching of its own",
    rules=replace(NEWEST.rules, async_scheduling=False),
    prefix_caching=False,
    null_blocks=0,
    device_limits=False,
    window_groups=False,
    memory=FITTED,
)
ENGINES = {engine.name: engine for engine in (DEFAULT, VLLM_0_19, VLLM_0_32)}


def _windows_of_equal_layers(model: Model) -> bool:
    """Whether some layers have a window, and all store as much of a token."""
    stored = {(one.kind, one.kv_heads, one.head_dim, one.v_head_dim) for one in model.groups}
    kinds, sizes = {kind for kind, *_ in stored}, {tuple(size) for _, *size in stored}
    return not model.states and "window" in kinds <= {"window", "full"} and len(sizes) == 1


def server_limits(device: Device) -> tuple[int, int]:
    """max_num_seqs and max_num_batched_tokens that vLLM 0.32's API server takes on such a GPU.

    vLLM engine/arg_utils.py, get_batch_defaults.
    """
    if device.memory_bytes >= 160 << 30:
        return 1024, 16_384
    if device.memory_bytes >= 70 << 30 and "a100" not in device.name.lower():
        return 1024, 8192
    return 256, 2048


OWN = "resolved configuration in the shipped RTX 4090 run's meta.json"
SOURCES = {
    "async_scheduling": OWN,
    "reserve_whole_prompt": f"scheduler_reserve_full_isl, {OWN}",
    "preempted_first": "vLLM v1/core/sched/scheduler.py: waiting.prepend_request",
    "admit_after_preemption": "vLLM v1/core/sched/scheduler.py: if not preempted_reqs",
    "padded_to": f"cudagraph_capture_sizes, {OWN}",
    "whole_tiles": "measured GEMM times rise in stairs of 64 or 128 tokens",
    "all_reduce": "Megatron-LM (2019): two a layer, one for the embedding",
    "length_skew": "measured by the profile's skew rows (docs/accuracy.md)",
    "kernel_time": "1: a profile states its own (docs/accuracy.md)",
    "kernel_overlap_s": "0: a profile states its own (docs/accuracy.md)",
    "host_overhead_s": "0: hidden by planning ahead; not identifiable in the shipped runs",
    "prefix_caching": f"enable_prefix_caching, {OWN}",
    "block_size": OWN,
    "device_limits": "vLLM engine/arg_utils.py: get_batch_defaults",
    "window_groups": "vLLM v1/core/kv_cache_utils.py: get_kv_cache_groups",
    "oldest_first": "vLLM v1/core/block_pool.py, free_blocks of either version",
    "null_blocks": "vLLM v1/core/block_pool.py: null_block",
    "logit_bytes": "live while a sampler works on a logit (docs/sizing.md)",
    "buffer_rows": "vLLM v1/sample/ops/topk_topp_triton.py, a row a multiprocessor",
    "context_bytes": "default: fitted to two logs; else 1Cat-vLLM pull request 518",
    "graph_bytes": "fitted to one log, LMCache issue 3430; taken of the budget since 0.21",
    "communicates": "custom_all_reduce.py, and NCCL fitted to two logs (docs/sizing.md)",
    "pads": "vocab_parallel_embedding.py and fused_moe/oracle/mxfp4.py",
}


def find_engine(spec: str) -> Engine:
    """The preset of that name, with parameters changed: `vllm-0.19:length_skew=true`.

    Raises InputError with the closest name, or naming the parameter at fault.
    """
    name, options = key_values(spec, f"--engine {spec}")
    name = NEWEST.name if name == "vllm" else name  # the newest that is known
    if name not in ENGINES:
        raise InputError(f"--engine {spec}: no such engine; {suggestion(name, ENGINES)}")
    engine = ENGINES[name]
    for key, text in options.items():
        engine = _with(engine, key, text, spec)
    return engine if not options else replace(engine, name=spec)


def _with(engine: Engine, key: str, text: str, spec: str) -> Engine:
    known = parameters(engine)
    if key not in known:
        raise InputError(f"--engine {spec}: no parameter {key!r}; {suggestion(key, known)}")
    value = _value(text, known[key], f"--engine {spec}: {key}={text}")
    for part in ("rules", "kernels", "memory"):
        group = getattr(engine, part)
        if any(f.name == key for f in fields(group)):
            changed: Engine = replace(engine, **{part: replace(group, **{key: value})})
            return changed
    changes: dict[str, Any] = {key: value}
    return replace(engine, **changes)


def _value(text: str, like: bool | int | float, where: str) -> bool | int | float:
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise InputError(f"{where}: expected true or false")
        return text.lower() == "true"
    try:
        number = type(like)(text)
    except ValueError:
        raise InputError(f"{where}: expected a number") from None
    if not 0 <= number < float("inf"):
        raise InputError(f"{where}: expected a number of at least 0")
    return number


def parameters(engine: Engine) -> dict[str, bool | int | float]:
    """Every named parameter of an engine, flat."""
    found: dict[str, bool | int | float] = {}
    for group in (engine.rules, engine.kernels, engine.memory):
        values = {f.name: getattr(group, f.name) for f in fields(group)}
        found |= {name: value for name, value in values.items() if not isinstance(value, str)}
    own = ("prefix_caching", "block_size", "null_blocks", "device_limits", "window_groups")
    for name in (*own, "oldest_first"):
        found[name] = getattr(engine, name)
    return found
