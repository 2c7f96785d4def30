"""A Hugging Face config.json read into a Model. Geometry comes from its fields, never its name."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sim.model.config_fields import CLASS_DEFAULTS, Fields
from sim.model.geometry import Model
from sim.model.hf_layers import layer_groups
from sim.model.hf_weights import count_weights, is_gated, mlp_width
from workloads.errors import InputError


def read_config(path: Path) -> Model:
    """The model that a config.json describes; `path` is the file or the folder it is in.

    Where a model.safetensors.index.json lies beside it, its total size is what weights take.
    Raises InputError naming file and field.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}, expected a config.json") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: not JSON ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: a {type(content).__name__}, expected a JSON object")
    name = file.parent.name if file.name == "config.json" and file.parent.name else file.stem
    model = model_from_config(content, name, str(file))
    index = file.with_name("model.safetensors.index.json")
    return _with_checkpoint(model, index) if index.is_file() else model


def model_from_config(content: Mapping[str, object], name: str, where: str) -> Model:
    """The model that a configuration's fields describe; `where` starts the message of an error."""
    notes: list[str] = []
    outer = Fields(content, where)
    text = outer
    for nested in ("text_config", "llm_config", "language_config"):
        inner = content.get(nested)
        if isinstance(inner, dict):
            # what the outer level says of dtype, quantisation and tying holds for the text model
            shared = {
                key: content[key]
                for key in ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
                if content.get(key) is not None
            }
            text = Fields({**shared, **inner}, f"{where}: {nested}")
            break
    if any(key in content for key in ("vision_config", "audio_config")) and not outer.integer(
        "other_parameters", 0
    ):
        notes.append("weights of the vision or audio tower are not counted")
    text = text.with_defaults(CLASS_DEFAULTS.get(text.string("model_type", ""), {}))
    groups = layer_groups(text)
    weights = count_weights(text, outer, notes)
    heads = text.integer("num_attention_heads")
    for group in groups:
        if group.kind != "mla" and heads % group.kv_heads:
            raise InputError(
                f"{text.where}: num_key_value_heads={group.kv_heads}, expected a divisor of "
                f"num_attention_heads={heads}"
            )
    return Model(
        name=name,
        hidden_size=text.integer("hidden_size"),
        num_heads=heads,
        intermediate_size=_widest(text),
        gated_mlp=is_gated(text),
        vocab_size=text.integer("vocab_size"),
        max_position_embeddings=text.integer("max_position_embeddings"),
        rotary_dim=_rotary_dim(text, groups[0].head_dim),
        groups=groups,
        weights=weights,
        source=outer.string("source", where),
        notes=tuple(notes),
    )


def _widest(text: Fields) -> int:
    """Intermediate size of the widest MLP a token passes: chosen experts are computed together."""
    chosen = text.integer("num_experts_per_tok", 0)
    dense = mlp_width(text)
    return max(dense, chosen * text.integer("moe_intermediate_size", dense))


def _rotary_dim(text: Fields, head_dim: int) -> int:
    """Dimensions that rotate; 0 for learned positions (OPT), a part for phi's partial rotation."""
    if not text.uses_rotary():
        return 0
    rope = text.integer("qk_rope_head_dim", 0)
    return rope or int(head_dim * text.number("partial_rotary_factor", 1.0))


def _with_checkpoint(model: Model, index: Path) -> Model:
    """The model with `other` adjusted so that its weights take what the checkpoint's index says.

    The index knows towers and formats that fields don't. Only a larger checkpoint is believed:
    an index may list shared tensors once.
    """
    try:
        total = json.loads(index.read_text(encoding="utf-8"))["metadata"]["total_size"]
        missing = int(total) - model.weight_bytes()
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(f"{index}: metadata.total_size can't be read ({error!r})") from None
    note = f"{index.name}: checkpoint of {int(total):,} B"
    if missing <= 0:
        return replace(model, notes=(*model.notes, note))
    extra = model.weights.other + -(-missing // model.weights.dtype_bytes)
    notes = tuple(n for n in model.notes if "tower" not in n)
    return replace(model, weights=replace(model.weights, other=extra), notes=(*notes, note))
