"""What a checkpoint says of how its weights and its KV cache are stored.

Formats: compressed-tensors, NVIDIA ModelOpt, FBGEMM, AWQ, GPTQ, bitsandbytes, MLX, OCP MXFP4 and
DeepSeek's blocks of 8 bits, as their config.json objects describe them.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from fractions import Fraction
from typing import NamedTuple

from sim.model.config_fields import Fields
from sim.model.weights import Stored
from workloads.errors import InputError

LINEAR = ("attention", "kv_projection", "recurrent", "mlp", "shared", "experts")
MODULES = {
    # where a class's matrices usually are, by which lists of exceptions are read
    "attention": ("self_attn.q_proj", "self_attn.o_proj", "attention.q_proj"),
    "kv_projection": ("self_attn.k_proj", "self_attn.v_proj", "self_attn.kv_a_proj_with_mqa"),
    "recurrent": ("linear_attn.in_proj_qkvz", "mixer.in_proj", "mamba.in_proj", "conv.in_proj"),
    "mlp": ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "feed_forward.gate_proj"),
    "shared": ("mlp.shared_experts.gate_proj", "mlp.shared_expert.gate_proj"),
    "experts": ("mlp.experts.0.gate_proj", "mlp.experts.gate_up_proj", "mlp.experts"),
}
UNKNOWN = {
    "quark", "torchao", "hqq", "aqlm", "vptq", "spqr", "higgs", "gguf", "exl2", "exl3", "quanto",
    "inc", "auto_round_mixed", "experts_int8", "moe_wna16", "ipex", "bitnet", "fp_quant", "petit",
}  # fmt: skip
"""Methods that are known to exist and whose layout of bytes isn't read here."""

NVFP4 = (16 * 4 + 8, 16)  # 4 bits each and a scale of 8 for 16 of them
KV_8BIT = {"FP8": "fp8", "INT8": "int8_per_token_head", "NVFP4": "nvfp4", "NONE": ""}


class Scheme(NamedTuple):
    """Which classes are stored otherwise than in the model's own type."""

    stored: tuple[Stored, ...] = ()
    unsure: tuple[str, ...] = ()
    kv: str = ""  # a name for --kv-cache-dtype, or nothing
    said: str = ""  # for people to read


def read_scheme(spec: object, where: str, layers: int) -> Scheme:
    """The scheme of a `quantization_config` or an hf_quant_config.json's `quantization`.

    Raises InputError naming the field for what contradicts itself; a method that isn't known
    leaves its classes' bytes unsure.
    """
    if spec is None:
        return Scheme()
    if not isinstance(spec, Mapping):
        raise InputError(f"{where}: quantization_config={spec!r}, expected an object"[:300])
    fields = Fields(spec, f"{where}: quantization_config")
    method = fields.string("quant_method", "modelopt" if fields.has("quant_algo") else "")
    if not method and {"bits", "group_size"} <= spec.keys():
        method = "mlx"
    if not method:
        raise InputError(f"{fields.where}: quant_method is missing, expected a method's name")
    kv = _kv_scheme(fields)
    found = _format(method.lower().replace("_marlin", ""), fields)
    if found is None:
        said = f"{method} weights: how many bytes they take isn't known from the configuration"
        return Scheme((), LINEAR, kv, said)
    bits, block, classes = found
    if not bits:
        return Scheme((), LINEAR, kv, f"{method}: weights of mixed types, which isn't read")
    ignored = _ignored(fields)
    stored = [
        Stored(one, bits, block, share)
        for one in classes
        if (share := _share(one, ignored, layers)) > 0
    ]
    return Scheme(tuple(stored), (), kv)


def _format(method: str, fields: Fields) -> tuple[int, int, tuple[str, ...]] | None:
    """Bits of a block, its weights, the classes stored so. 0 bits: mixed types; None: unknown."""
    if method in {"mxfp4", "gpt_oss_mxfp4"}:
        return 32 * 4 + 8, 32, ("experts",)
    if method in {"awq", "gptq", "auto-round", "auto_round", "autoround", "mlx"}:
        bits, group = _bits(fields, "bits"), _group(fields, 128)
        # a 16-bit scale and a zero point a group; MLX keeps a 16-bit bias instead
        return group * bits + 16 + (16 if method == "mlx" else bits), group, LINEAR
    if method in {"fp8", "fbgemm_fp8"}:
        shape = fields.find("weight_block_size")[1]
        if shape is None:
            return 8, 1, LINEAR
        if not (isinstance(shape, list) and len(shape) == 2):
            raise InputError(f"{fields.where}: weight_block_size={shape!r}, expected two integers")
        block = _positive(fields, shape[0]) * _positive(fields, shape[1])
        return block * 8 + 32, block, LINEAR
    if method == "eetq":
        return 8, 1, LINEAR
    if method == "bitsandbytes":
        if fields.flag("load_in_8bit", False):
            return 8, 1, LINEAR
        # a 32-bit maximum for 64 weights, itself in 8 bits where it is quantised again
        extra = 8 if fields.flag("bnb_4bit_use_double_quant", False) else 32
        return 64 * 4 + extra, 64, LINEAR
    if method == "modelopt" or method.startswith("modelopt_"):
        return _modelopt(fields)
    if method == "compressed-tensors":
        return _compressed(fields)
    if method in UNKNOWN:
        return None
    raise InputError(
        f"{fields.where}: quant_method={method!r}, expected one of awq, gptq, fp8, fbgemm_fp8, "
        "mxfp4, bitsandbytes, compressed-tensors, modelopt, torchao, quark and the like"
    )


def _modelopt(fields: Fields) -> tuple[int, int, tuple[str, ...]]:
    algorithm = fields.string("quant_algo", "missing").upper()
    if algorithm == "NVFP4":
        return *NVFP4, LINEAR
    if algorithm in {"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "INT8", "INT8_SQ"}:
        return 8, 1, LINEAR
    if algorithm in {"W4A16_AWQ", "W4A8_AWQ", "INT4"}:
        group = _group(fields, 128)
        return group * 4 + 16, group, LINEAR
    if algorithm in {"MXFP4", "MXFP8"}:
        return 32 * int(algorithm[-1]) + 8, 32, LINEAR
    if algorithm == "MIXED_PRECISION":
        return 0, 1, LINEAR
    raise InputError(f"{fields.where}: quant_algo={algorithm!r}, expected such as FP8 or NVFP4")


def _compressed(fields: Fields) -> tuple[int, int, tuple[str, ...]]:
    groups = fields.find("config_groups")[1]
    if not isinstance(groups, dict) or not groups:
        raise InputError(f"{fields.where}: config_groups is missing, expected an object of groups")
    formats = set()
    for name, group in groups.items():
        inside = Fields(group if isinstance(group, dict) else {}, f"{fields.where}: {name}")
        weights = inside.nested("weights")
        bits, strategy = _bits(weights, "num_bits"), weights.string("strategy", "tensor")
        if strategy in {"group", "tensor_group"}:
            size = _group(weights, 128)
            scale = 8 if size == 16 and weights.string("type", "int") == "float" else 16
            formats.add((size * bits + scale, size))
        elif strategy == "block":
            shape = weights.find("block_structure")[1]
            block = 128 * 128
            if isinstance(shape, list) and len(shape) == 2:
                block = _positive(weights, shape[0]) * _positive(weights, shape[1])
            formats.add((block * bits + 32, block))
        else:  # a scale a channel or tensor is too small to count
            formats.add((bits, 1))
    if len(formats) > 1:
        return 0, 1, LINEAR
    bits, block = formats.pop()
    return bits, block, LINEAR


def _group(fields: Fields, default: int) -> int:
    """Weights that share a scale; −1, a whole channel, has too few scales to count."""
    if not fields.has("group_size"):
        return default
    return 1024 if fields.find("group_size")[1] == -1 else fields.integer("group_size")


def _bits(fields: Fields, key: str) -> int:
    bits = fields.integer(key)
    if bits > 16:
        raise InputError(f"{fields.where}: {key}={bits}, expected at most 16 bits a weight")
    return bits


def _positive(fields: Fields, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 10**9:
        raise InputError(f"{fields.where}: {value!r}, expected a positive integer"[:300])
    return value


def _ignored(fields: Fields) -> list[str]:
    """Modules that stay in the model's own type."""
    names: list[str] = []
    for key in (
        "modules_to_not_convert", "ignore", "ignored_layers", "exclude_modules",
        "llm_int8_skip_modules",
    ):  # fmt: skip
        listed = fields.find(key)[1]
        if listed is None:
            continue
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise InputError(f"{fields.where}: {key}: expected a list of modules' names")
        names += listed
    return names


def _share(field: str, ignored: list[str], layers: int) -> Fraction:
    """The part of a class that no exception names."""
    if not ignored:
        return Fraction(1)
    patterns = [_pattern(one) for one in ignored]
    # its matrices have one of several names: a layer's class is named as soon as one of them is
    named = sum(
        any(
            pattern(f"model.layers.{layer}.{module}")
            for module in MODULES[field]
            for pattern in patterns
        )
        for layer in range(layers)
    )
    return Fraction(layers - named, layers)


def _pattern(text: str) -> Callable[[str], bool]:
    """Whether a module's name is meant: a regular expression, a wildcard, or a part of the path."""
    if text.startswith("re:"):
        try:
            found = re.compile(text[3:])
        except re.error:
            return lambda name: False
        return lambda name: bool(found.match(name))
    if "*" in text:
        return lambda name: fnmatch(name, text) or fnmatch(name, f"*{text}")
    return lambda name: name == text or f".{text}." in f".{name}." or name.startswith(f"{text}.")


def _kv_scheme(fields: Fields) -> str:
    """What the checkpoint's KV cache is calibrated for: a name for --kv-cache-dtype."""
    name, scheme = fields.find("kv_cache_scheme")
    if isinstance(scheme, dict):
        own = Fields(scheme, f"{fields.where}: {name}")
        bits = own.integer("num_bits", 8)
        kind = own.string("type", "float")
        if (bits, kind) == (8, "float"):
            return "fp8"
        if (bits, kind) == (8, "int"):
            return "int8_per_token_head"
        if (bits, kind) == (4, "float"):
            return "nvfp4"
        raise InputError(f"{own.where}: {bits} bits of type {kind!r}, expected 8 or 4 bits")
    algorithm = scheme if isinstance(scheme, str) else fields.string("kv_cache_quant_algo", "")
    if not algorithm:
        return ""
    if algorithm.upper() not in KV_8BIT:
        raise InputError(
            f"{fields.where}: kv_cache_quant_algo={algorithm!r}, expected one of "
            f"{', '.join(KV_8BIT)}"
        )
    return KV_8BIT[algorithm.upper()]
