"""Names of what a KV cache is stored in: vLLM's `--kv-cache-dtype`, and what each takes."""

from sim.model.geometry import Model
from sim.model.layers import KvFormat
from workloads.errors import InputError

FP8 = KvFormat("fp8", 8)  # one scale a layer: constant, and too small to count

KV_DTYPES = {
    "fp16": KvFormat("fp16", 16),
    "float16": KvFormat("float16", 16),
    "bf16": KvFormat("bf16", 16),
    "bfloat16": KvFormat("bfloat16", 16),
    "float32": KvFormat("float32", 32),
    **{
        name: KvFormat(name, 8) for name in ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla")
    },
    # a 32-bit scale for each token, head and tensor
    "int8": KvFormat("int8", 8, scale_bits=32),
    "int8_per_token_head": KvFormat("int8_per_token_head", 8, scale_bits=32),
    "fp8_per_token_head": KvFormat("fp8_per_token_head", 8, scale_bits=32),
    "int4_per_token_head": KvFormat("int4_per_token_head", 4, scale_bits=32),
    "int8_fp16": KvFormat("int8_fp16", 8, scale_bits=16),  # as the executor stores it
    "nvfp4": KvFormat("nvfp4", 4, group=16, scale_bits=8),  # an 8-bit scale for 16 elements
    "nvfp4_4over6": KvFormat("nvfp4_4over6", 4, group=16, scale_bits=8),
}
"""Source: vLLM 0.32, config/cache.py and the backends' customize_spec."""


def limitation(model: Model, kv: KvFormat) -> str | None:
    """What answers lose in it; nothing where the checkpoint is calibrated for as few bits."""
    scheme = KV_DTYPES.get(model.kv_scheme)
    return None if scheme is not None and scheme.bits <= kv.bits else kv.limitation


def kv_format(model: Model, name: str) -> KvFormat:
    """The format that `--kv-cache-dtype` names.

    "auto" is what the checkpoint's KV cache is calibrated for, if it says so, else the model's own
    type. Raises InputError for a name that isn't known or that the model's layers can't be in.
    """
    if name == "auto":
        if model.kv_scheme:
            return KV_DTYPES[model.kv_scheme]
        return KvFormat("auto", 8 * model.dtype_bytes)
    if name not in KV_DTYPES:
        raise InputError(
            f"--kv-cache-dtype {name}: expected one of {', '.join(['auto', *KV_DTYPES])}"
        )
    if name == "fp8_ds_mla" and not any(group.kind == "sparse_mla" for group in model.groups):
        raise InputError(
            f"--kv-cache-dtype {name}: only for sparse latent attention, which {model.name} "
            "hasn't; expected fp8"
        )
    return KV_DTYPES[name]
