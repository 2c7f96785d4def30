"""Sizes of block that vLLM's kernels for latent attention take, where a policy has another."""

from reports.language import tr
from sim.model.geometry import Model
from sim.policy.paging import Paging
from sim.policy.spec import Policy, parts_of

WHOLE = 64
"""FlashMLA's, and of sparse attention its indexer's. vLLM 0.32, v1/attention/backends/mla:
get_supported_kernel_block_sizes of each, of which a block is a multiple (docs/sizing.md)."""
LEAST = 16
"""Triton's, and FlashAttention's."""


def latent_note(model: Model, policy: Policy) -> str | None:
    """A line where paging's blocks keep vLLM from kernels of its own; None where they don't.

    Beside states vLLM sizes blocks itself, and no block is what a user asked for.
    """
    kinds = {group.kind for group in model.groups}
    sizes = [part.block_size for part in parts_of(policy) if isinstance(part, Paging)]
    if model.states or not kinds & {"mla", "sparse_mla"} or not sizes or not sizes[0] % WHOLE:
        return None
    size = sizes[0]
    if "sparse_mla" in kinds:
        return tr(
            "block_size={size}: vLLM's sparse latent attention takes multiples of 64 tokens "
            "(docs/sizing.md)",
            size=size,
        )
    if size % LEAST:
        return tr(
            "block_size={size}: vLLM's latent attention takes multiples of 16 tokens "
            "(docs/sizing.md)",
            size=size,
        )
    return tr(
        "block_size={size}: of vLLM's kernels for latent attention FlashMLA takes multiples of 64 "
        "tokens, CUTLASS of 128, FlashInfer of 32; Triton, and on Hopper FlashAttention, take "
        "{size} (docs/sizing.md)",
        size=size,
    )
