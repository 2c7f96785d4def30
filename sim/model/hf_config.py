"""A Hugging Face config.json read into a Model. Geometry comes from its fields, never its name."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from sim.model.checked import check_values
from sim.model.config_fields import Fields, shown
from sim.model.experts import widest
from sim.model.families import TEXT_OF, find_family
from sim.model.geometry import Model
from sim.model.hf_layers import layer_groups, layer_kinds, state_groups
from sim.model.hf_weights import count_weights
from sim.model.known_fields import check_known
from sim.model.layers import LayerGroup
from sim.model.quantisation import read_scheme
from sim.model.states import StateGroup
from sim.model.traits import traits_of
from workloads.errors import InputError
from workloads.incoming import read_json

NESTED = ("text_config", "llm_config", "language_config")
TOWERS = ("vision_config", "audio_config", "vit_config", "speech_config", "vision_tower_config")
SHARED = ("dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
"""What the outer level says of these holds for the text model."""


def read_config(path: Path, casts: bool = False) -> Model:
    """The model that a config.json describes; `path` is the file or the folder it is in.

    Beside it, an hf_quant_config.json says how weights and KV are stored, and the total size of a
    model.safetensors.index.json is what weights take. Raises InputError naming file and field.
    """
    file = path / "config.json" if path.is_dir() else path
    content = _object(file, "a config.json")
    name = file.parent.name if file.name == "config.json" and file.parent.name else file.stem
    beside = file.with_name("hf_quant_config.json")
    if beside.is_file():
        quantisation = _object(beside, "an hf_quant_config.json").get("quantization")
        content = {**content, "quantization_config": quantisation}
    model = model_from_config(content, name, str(file), casts)
    index = file.with_name("model.safetensors.index.json")
    return _with_checkpoint(model, index) if index.is_file() else model


def _object(file: Path, expected: str) -> dict[str, object]:
    try:
        content = read_json(file)
    except InputError as error:
        raise InputError(f"{error}, expected {expected}") from None
    if not isinstance(content, dict):
        raise InputError(f"{file}: a {type(content).__name__}, expected a JSON object")
    return content


def model_from_config(
    content: Mapping[str, object], name: str, where: str, casts: bool = False
) -> Model:
    """The model that a configuration's fields describe; `where` starts the message of an error.

    With `casts` what is in float32 is loaded in 16 bits, as vLLM does unless told otherwise.
    """
    notes: list[str] = []
    outer = Fields(content, where)
    text = _text_of(outer, notes)
    if casts and text.dtype_bytes() == 4:
        text = _in_16_bits(text, notes)
    kind, family = find_family(text)
    check_known(text, family.fields, kind)
    text = text.of_family(family.names, family.defaults)
    check_values(text, family.known | set(family.names.values()))
    groups, states = layer_groups(text, family), state_groups(text, family)
    kinds = layer_kinds(text, family)
    _check_heads(text, groups)
    scheme = read_scheme(_scheme_of(text), text.where, len(kinds))
    counted = count_weights(text, family, notes)
    weights = replace(
        counted,
        other=counted.other + outer.integer("other_parameters", 0),
        stored=scheme.stored,
        unsure=scheme.unsure,
    )
    if scheme.said:
        notes.append(scheme.said)
    traits, _ = traits_of(kind)
    return Model(
        name=name,
        hidden_size=text.integer("hidden_size"),
        num_heads=_heads(text, groups, states),
        intermediate_size=widest(text, traits, len(kinds)),
        gated_mlp=traits.gated,
        vocab_size=text.integer("vocab_size"),
        max_position_embeddings=text.integer(
            "max_position_embeddings", NO_LIMIT if not groups else None
        ),
        rotary_dim=_rotary_dim(text, groups),
        groups=groups,
        weights=weights,
        states=states,
        depth=len(kinds),
        kinds=tuple(kinds),
        qk_norm=traits.qk_norm or traits.wide_qk_norm,
        kv_scheme=scheme.kv,
        source=outer.string("source", where),
        notes=tuple(notes),
    )


NO_LIMIT = 2**20
"""Positions of a model without attention, whose recurrence has no longest context of its own."""


def _in_16_bits(text: Fields, notes: list[str]) -> Fields:
    """vLLM's `--dtype auto` (config/model.py): float32 checkpoints are loaded in 16 bits."""
    notes.append("the checkpoint is in float32, which vLLM's --dtype auto loads in 16 bits")
    return Fields({**text.content, "dtype": "float16"}, text.where)


def _text_of(outer: Fields, notes: list[str]) -> Fields:
    """The text model of a wrapper, or the configuration itself. Appends to `notes`."""
    content = outer.content
    for name in NESTED:
        if content.get(name) is not None and not isinstance(content[name], dict):
            raise InputError(f"{outer.where}: {name}={shown(content[name])}, expected an object")
    found = [name for name in NESTED if isinstance(content.get(name), dict)]
    thinker = content.get("thinker_config")
    if not found and isinstance(thinker, dict):
        return _text_of(Fields(thinker, f"{outer.where}: thinker_config"), notes)
    if any(isinstance(content.get(key), dict) for key in TOWERS) and not outer.integer(
        "other_parameters", 0
    ):
        notes.append("weights of the vision or audio tower are not counted")
    if not found:
        return outer
    shared = {key: content[key] for key in SHARED if content.get(key) is not None}
    inner = content[found[0]]
    assert isinstance(inner, dict)
    kind = outer.string("model_type", "")
    if inner.get("model_type") is None and kind in TEXT_OF:
        shared["model_type"] = TEXT_OF[kind]
    # a wrapper's own fields on attention may add layers that read the tower
    own = {k: v for k, v in content.items() if k not in (*NESTED, *TOWERS)}
    check_known(Fields(own, outer.where), (), kind)
    return Fields({**shared, **inner}, f"{outer.where}: {found[0]}")


def _scheme_of(text: Fields) -> object:
    """The object that says how weights are stored; MLX calls it `quantization`."""
    for key in ("quantization_config", "compression_config", "quantization"):
        value = text.content.get(key)
        if value is not None:
            return value
    return None


def _heads(text: Fields, groups: tuple[LayerGroup, ...], states: tuple[StateGroup, ...]) -> int:
    """Query heads; for a model without attention, heads of its recurrence."""
    if groups:
        return text.integer("num_attention_heads")
    return min(part.shards for group in states for part in group.parts if part.name == "state")


def _check_heads(text: Fields, groups: tuple[LayerGroup, ...]) -> None:
    for group in groups:
        if group.latent:
            continue
        name = "swa_num_attention_heads" if group.kind == "window" else "num_attention_heads"
        heads = text.integer(name, 0) or text.integer("num_attention_heads")
        if heads % group.kv_heads:
            raise InputError(
                f"{text.where}: {text.find('num_key_value_heads')[0]}={group.kv_heads}, expected "
                f"a divisor of {text.find('num_attention_heads')[0]}={heads}"
            )


def _rotary_dim(text: Fields, groups: tuple[LayerGroup, ...]) -> int:
    """Dimensions that rotate; 0 for learned positions (OPT), a part for phi's partial rotation."""
    if not text.uses_rotary() or not groups:
        return 0
    rope = text.integer("qk_rope_head_dim", 0) or text.integer("rotary_dim", 0)
    if rope > groups[0].head_dim:
        raise InputError(
            f"{text.where}: rotary_dim={rope}, expected at most head_dim={groups[0].head_dim}"
        )
    nested = text.find("rope_parameters")[1]
    share = nested.get("partial_rotary_factor") if isinstance(nested, dict) else None
    given = Fields({"partial_rotary_factor": share}, f"{text.where}: rope_parameters")
    shared = text.number("rotary_pct", 1.0)  # GPT-NeoX's name
    factor = text.number("partial_rotary_factor", given.number("partial_rotary_factor", shared))
    if factor > 1:
        raise InputError(f"{text.where}: partial_rotary_factor={factor:g}, expected at most 1")
    return rope or int(groups[0].head_dim * factor)


def _with_checkpoint(model: Model, index: Path) -> Model:
    """The model with weights that take what the checkpoint's index says.

    The index knows towers and formats that fields don't. More than was counted is `other`; less
    is a format of fewer bytes than the configuration says, over all classes alike.
    """
    metadata = _object(index, "a safetensors index").get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, float) and total.is_integer():
        total = int(total)
    if isinstance(total, bool) or not isinstance(total, int) or not 0 < total < 10**18:
        raise InputError(
            f"{index}: metadata.total_size={total!r}, expected the checkpoint's bytes"[:300]
        )
    counted = model.weight_bytes()
    weights = model.weights
    if total >= counted:
        extra = -(-(total - counted) // weights.dtype_bytes)
        weights = replace(weights, other=weights.other + extra)
    else:
        weights = replace(weights, scale=Fraction(total, counted))
    weights = replace(weights, unsure=(), slack=Fraction(0))
    notes = [n for n in model.notes if "tower" not in n and not n.startswith("weights are counted")]
    note = f"{index.name}: checkpoint of {total:,} B"
    return replace(model, weights=weights, notes=(*notes, note))
