"""What an engine keeps free of weights and KV: a stated model of its profiling run's peak."""

from sim.model.geometry import Model

CONTEXT_BYTES = 368 * 2**20
"""CUDA context, library handles and workspaces. What two public vLLM logs of Llama-3.1-8B on an
RTX 3090 (KV 3.81 GiB at 20,000 and 2.89 GiB at 29,000 tokens) leave unexplained: 0.36 GiB each."""

LOGIT_BYTES = 26
"""Live bytes per logit while a sampler sorts them for top-p: the logit (2) and its 32-bit copy (4),
sorted value (4), its 64-bit index (8), probability (4) and running sum (4)."""


def forward_bytes(model: Model, tokens: int, tp: int = 1) -> int:
    """Peak of a forward pass over `tokens`, inside the MLP, per GPU.

    Per token the input, the normed input and the residual (hidden_size each), and the
    intermediates: gate, up and their product (3 × intermediate_size, divided over GPUs), or two
    where there is no gate. The logs named at CONTEXT_BYTES differ by 9,000 tokens and 0.92 GiB =
    109,765 ± 1,200 B a token; this gives 110,592.
    """
    intermediates = (3 if model.gated_mlp else 2) * -(-model.intermediate_size // tp)
    return tokens * (3 * model.hidden_size + intermediates) * model.dtype_bytes


def sampler_bytes(model: Model, sequences: int) -> int:
    """Peak of sampling for `sequences` at once: every GPU may gather the whole vocabulary."""
    return sequences * model.vocab_size * LOGIT_BYTES


def activation_bytes(model: Model, tokens: int, sequences: int, tp: int = 1) -> tuple[int, str]:
    """The larger of the two peaks, which don't coincide, and how it came about."""
    forward, sampler = forward_bytes(model, tokens, tp), sampler_bytes(model, sequences)
    if sampler > forward:
        why = f"sampler: {sequences} sequences × {model.vocab_size:,} logits × {LOGIT_BYTES} B"
        return sampler, why
    matrices = 3 if model.gated_mlp else 2
    intermediate = f"{matrices} × {-(-model.intermediate_size // tp):,}"
    hidden = f"3 × {model.hidden_size:,}"
    why = f"forward: {tokens:,} tokens × ({hidden} + {intermediate}) × {model.dtype_bytes} B"
    return forward, why
