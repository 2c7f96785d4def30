"""Where a simulated configuration and what starts a server part: sizes it refuses, words it lacks.

Sources, vLLM 0.32: v1/attention/backends (get_supported_kernel_block_sizes), config/scheduler.py
and config/vllm.py (hybrid KV cache manager), v1/core/kv_cache_utils.py
(unify_hybrid_kv_cache_specs); --watermark came with pull request 44594, after 0.19. SGLang 0.5:
server_args.py.
"""

from sim.policy.paging import Paging
from sim.policy.prefix import Prefix
from sim.policy.registry import label_of
from sim.policy.spec import parts_of
from sim.policy.storage import Fp8
from sim.run.engine_presets import DEFAULT, ENGINES, parameters
from sim.run.simulation import Setup

IN_LINES = {"prefix_caching", "block_size", "window_groups"}
"""Parameters of an engine that decide the policy, and so are in the lines."""


def paging_of(setup: Setup) -> Paging:
    """The placement; every policy that gets a line has one."""
    return next(part for part in parts_of(setup.policy) if isinstance(part, Paging))


def vllm_takes(setup: Setup) -> bool:
    """Whether vLLM has attention on CUDA for blocks of that size."""
    return paging_of(setup).block_size % _vllm_unit(setup) == 0


def sglang_takes(setup: Setup) -> bool:
    """Whether chunks are of whole pages, which SGLang asserts."""
    return setup.limits.max_num_batched_tokens % paging_of(setup).block_size == 0


def without_groups(setup: Setup) -> bool:
    """Whether layers with windows take memory as full ones do, which both engines must be told."""
    return _windows(setup) and paging_of(setup).layers != "capped"


def knows_watermark(setup: Setup) -> bool:
    """Whether the engine's version has --watermark."""
    return not setup.engine.name.startswith("vllm-0.19")


def blocks(setup: Setup) -> list[str]:
    """Why an engine gets no line."""
    size, notes = paging_of(setup).block_size, []
    if not vllm_takes(setup):
        unit = _vllm_unit(setup)
        notes.append(
            f"block_size={size}: vLLM takes multiples of {unit} on CUDA with this model, so there "
            "is no line for it"
        )
    if not sglang_takes(setup):
        chunk = setup.limits.max_num_batched_tokens
        notes.append(
            f"block_size={size}: SGLang takes sizes that divide a chunk, of {chunk:,} tokens here, "
            "so there is no line for it"
        )
    return notes


def layers(setup: Setup) -> list[str]:
    """What the layers with windows hold beside what an engine lets them."""
    if not _windows(setup):
        return []
    kinds = {group.kind for group in setup.pool.groups} - {"shared"}
    capped = paging_of(setup).layers == "capped"
    notes = []
    if capped and "chunked" in kinds:
        notes.append(
            "layers=capped: vLLM has it for chunked attention with the environment's "
            "VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE=1 alone"
        )
    if not capped and kinds == {"window"}:
        notes.append(
            f"layers={paging_of(setup).layers}: where every layer has a window vLLM frees what "
            "leaves it, whatever it is told; layers=capped does so"
        )
    if capped:
        notes.append(
            "layers=capped: SGLang divides its memory between layers with and without windows by "
            "--swa-full-tokens-ratio, not block by block"
        )
    return notes


def paging_options(setup: Setup) -> list[str]:
    """A watermark that an engine has no word for."""
    watermark = paging_of(setup).watermark
    if not watermark:
        return []
    who = "SGLang has" if knows_watermark(setup) else "vLLM 0.19 and SGLang have"
    return [f"watermark={watermark:g}: {who} no word"]


def modifiers(setup: Setup) -> list[str]:
    """Options behind the placement that aren't the engines' own."""
    notes = []
    for part in parts_of(setup.policy):
        if isinstance(part, Fp8) and part != Fp8():
            notes.append(f"{label_of(part)}: one constant scale a layer in both engines' fp8")
        if isinstance(part, Prefix) and (part.reuse == "oldest") != setup.engine.oldest_first:
            version = "0.19" if part.reuse == "oldest" else "0.32"
            notes.append(
                f"prefix:reuse={part.reuse}: as vLLM {version} does it, no line chooses it"
            )
    return notes


def engine_parameters(setup: Setup) -> list[str]:
    """Parameters that aren't the named engine's own."""
    preset = parameters(ENGINES.get(setup.engine.name.partition(":")[0], DEFAULT))
    changed = [
        f"{name}={str(value).lower()}"
        for name, value in parameters(setup.engine).items()
        if value != preset[name] and name not in IN_LINES
    ]
    return [f"--engine with {', '.join(changed)}: no line says so"] if changed else []


def _vllm_unit(setup: Setup) -> int:
    """Sparse attention takes multiples of 64, all other of 16."""
    return 64 if any(group.selects for group in setup.pool.groups) else 16


def _windows(setup: Setup) -> bool:
    """Whether `layers` decides anything."""
    groups = setup.pool.groups
    plain = not setup.pool.states and not any(group.selects for group in groups)
    return plain and any(group.kind in ("window", "chunked") for group in groups)
