"""Which models the executor runs. No torch here: what is refused is refused before it is loaded."""

from sim.model.geometry import Model
from workloads.errors import InputError


def require_llama_shaped(model: Model) -> None:
    """Raises InputError for a geometry that isn't Llama's."""
    if why := _unlike_llama(model):
        raise InputError(
            f"{model.name} has {why}: the executor runs Llama-shaped models (attention with equal "
            "heads in all layers, in windows or not, rotary positions, one gated MLP a layer)"
        )


def _unlike_llama(model: Model) -> str | None:
    """What the model has that Llama hasn't."""
    if other := sorted({group.kind for group in model.groups} - {"full", "window"}):
        return f"layers of other attention ({', '.join(other)})"
    if len({(g.kv_heads, g.head_dim, g.v_head_dim) for g in model.groups}) != 1:
        return "heads that differ between layers"
    if model.weights.experts:
        return "experts"
    if not model.gated_mlp:
        return "an MLP without a gate"
    return None if model.rotary_dim else "no rotary positions"
