"""Kernels that only move bytes, where nobody measured them: bytes over bandwidth, above a floor.

Norms, activation, rotary embedding and KV writes do a handful of operations a byte, so their time
is what they read and write. The smallest takes a launch and a round trip to memory: the floor.
"""

from sim.cost.base import Efficiency
from sim.cost.kernels.profile import Row
from sim.hardware import Device
from sim.model.geometry import Model

FLOOR_US = 2.5
"""Of one token: median of norms, activation and rotary embedding in the shipped profiles, which
span 1.9 to 4.2 µs."""
MAX_TOKENS = 32_768


def token_bytes(model: Model, *, tp: int = 1, kv_bytes: int = 2) -> dict[str, int]:
    """Bytes that a kernel of one layer moves for a token, on one of `tp` GPUs.

    A norm with its residual reads both and writes both; the activation reads gate and up and
    writes their product; rotary embedding and the norm of queries and keys read and write both; a
    KV write reads K and V and writes them as the cache stores them.
    """
    group, size = model.groups[0], model.dtype_bytes
    heads, kv_heads = model.num_heads // tp, group.heads_per_rank(tp)
    width = model.intermediate_size // tp
    both = 2 * (heads + kv_heads) * group.head_dim * size
    return {
        "layernorm": 4 * model.hidden_size * size,
        "act_fn": (3 if model.gated_mlp else 2) * width * size,
        "rotary_emb": both if model.rotary_dim else 0,
        "qk_norm": both if model.qk_norm else 0,
        "kv_write": kv_heads * (group.head_dim + group.v_head_dim) * (size + kv_bytes),
    }


def streams(
    model: Model, device: Device, *, tp: int = 1, kv_bytes: int = 2
) -> dict[str, list[Row]]:
    """Rows of a profile: the floor up to the size where bandwidth takes over, then a line.

    `layernorm` runs twice a layer; a table of rows is of one.
    """
    rate = device.bandwidth_bytes_per_s * Efficiency().bandwidth.value / 1e6  # bytes a µs
    rows: dict[str, list[Row]] = {}
    for kernel, size in token_bytes(model, tp=tp, kv_bytes=kv_bytes).items():
        if not size:
            continue
        knee = min(max(int(FLOOR_US * rate / size), 1), MAX_TOKENS - 1)
        sizes = sorted({1, knee, knee + 1, MAX_TOKENS})
        rows[kernel] = [(0, 0, n, 0, max(FLOOR_US, n * size / rate)) for n in sizes]
    rows["final_layernorm"] = rows["layernorm"]
    return rows
