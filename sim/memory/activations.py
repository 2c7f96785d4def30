"""What an engine keeps free of weights and KV: a stated model of its profiling run's peak."""

from sim.memory.profiled import FITTED, ProfiledMemory
from sim.model.geometry import Model


def forward_bytes(model: Model, tokens: int, tp: int = 1) -> int:
    """Peak of a forward pass over `tokens`, inside the MLP, per GPU.

    Per token the input, the normed input and the residual (hidden_size each), and the
    intermediates: gate, up and their product (3 × intermediate_size, divided over GPUs), or two
    where there is no gate. Two public vLLM logs of Llama-3.1-8B on an
    RTX 3090 differ by 9,000 tokens and 0.92 GiB =
    109,765 ± 1,200 B a token; this gives 110,592.
    """
    intermediates = (3 if model.gated_mlp else 2) * -(-model.intermediate_size // tp)
    return tokens * (3 * model.hidden_size + intermediates) * model.dtype_bytes


def activation_bytes(
    model: Model, tokens: int, sequences: int, tp: int = 1, profiled: ProfiledMemory = FITTED
) -> tuple[int, str]:
    """The larger of the forward pass' and the sampler's peak, which don't coincide, and why."""
    forward = forward_bytes(model, tokens, tp)
    sampler, why = profiled.sampler(sequences, model.vocab_size)
    if sampler > forward:
        return sampler, why
    matrices = 3 if model.gated_mlp else 2
    intermediate = f"{matrices} × {-(-model.intermediate_size // tp):,}"
    hidden = f"3 × {model.hidden_size:,}"
    why = f"forward: {tokens:,} tokens × ({hidden} + {intermediate}) × {model.dtype_bytes} B"
    return forward, why
