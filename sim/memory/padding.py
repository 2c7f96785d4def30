"""What kernels add to weights so that their tiles fit (vLLM 0.32)."""

from sim.hardware import Device
from sim.model.geometry import Model

VOCABULARY_ROWS = 64  # vocab_parallel_embedding.py: DEFAULT_VOCAB_PADDING_SIZE
MXFP4_BITS = (136, 32)  # of a block: 32 weights of 4 bits and a scale
MXFP4_HIDDEN, MXFP4_INNER = 256, 128
"""Multiples to which Marlin's and TensorRT-LLM's kernels pad an expert's sizes (fused_moe/oracle/
mxfp4.py); Hopper's Triton kernel takes 2,880 as it is."""
HOPPER = ("h100", "h200", "h20", "h800")


def padding_bytes(
    model: Model, device: Device, tp: int = 1, expert_ranks: int = 1
) -> tuple[int, str]:
    """Bytes added on one of `tp` GPUs, of so many ranks that share the experts, and where."""
    rows = -model.vocab_size % VOCABULARY_ROWS
    tables = 2 if model.weights.lm_head else 1
    vocabulary = -(-rows * tables * model.hidden_size * model.dtype_bytes // tp)
    experts = -(-_experts(model, device, tp) // expert_ranks)
    parts = [
        f"{rows} rows of the vocabulary" if rows else "",
        f"MXFP4 experts to multiples of {MXFP4_HIDDEN} and {MXFP4_INNER}" if experts else "",
    ]
    return vocabulary + experts, ", ".join(filter(None, parts))


def _experts(model: Model, device: Device, tp: int) -> int:
    stored = [(one.bits, one.weights) for one in model.weights.stored if one.field == "experts"]
    inner = model.weights.expert_inner
    if MXFP4_BITS not in stored or not inner or device.name.startswith(HOPPER):
        return 0
    own = -(-inner // tp)
    padded = _up(model.hidden_size, MXFP4_HIDDEN) * _up(own, MXFP4_INNER)
    plain = -(-model.weights.field_bytes("experts") // tp)
    return plain * padded // (model.hidden_size * own) - plain


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
