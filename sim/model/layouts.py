"""Which kinds each layer of a configuration is of, first to last."""

from sim.model.config_fields import Fields
from workloads.errors import InputError

Kinds = tuple[str, ...]  # of one layer: most have one, some none, and hybrids two

LAYER_TYPES: dict[str, Kinds] = {
    "full_attention": ("full",),
    "attention": ("full",),
    "sliding_attention": ("window",),
    "chunked_attention": ("chunked",),
    "indexed_attention": ("sparse_mla",),
    "linear_attention": ("state",),
    "mamba": ("state",),
    "conv": ("state",),
    "hybrid": ("full", "state"),
    "mlp": (),
    "moe": (),
}
"""What entries of `layer_types` mean. "state" is the recurrence that the family has."""


def by_fields(fields: Fields) -> list[Kinds]:
    """From `layer_types`, else from the fields that describe windows, chunks and latent vectors."""
    layers = fields.integer("num_hidden_layers")
    listed = listed_kinds(fields)
    if fields.has("kv_lora_rank"):
        full: Kinds = ("sparse_mla",) if fields.has("index_topk") else ("mla",)
        for number, kinds in enumerate(listed or ()):
            if kinds not in {("full",), full}:
                raise InputError(
                    f"{fields.where}: layer_types[{number}], expected full attention beside "
                    "kv_lora_rank"
                )
        return [full] * layers
    if listed is not None:
        return listed
    if fields.has("attention_chunk_size"):
        return _chunked(fields, layers)
    # Qwen writes the window of a switched-off sliding window; absent, its class means "off".
    used = fields.flag("use_sliding_window", not fields.has("max_window_layers"))
    if not fields.has("sliding_window") or not used:
        return [("full",)] * layers
    if fields.has("sliding_window_pattern"):
        period = fields.integer("sliding_window_pattern")
        return [("window",) if (i + 1) % period else ("full",) for i in range(layers)]
    first = fields.integer("max_window_layers", 0)
    return [("window",) if i >= first else ("full",) for i in range(layers)]


def latent(fields: Fields) -> list[Kinds]:
    """Latent vectors in every layer: without their rank it is not known what is kept."""
    fields.integer("kv_lora_rank")
    return by_fields(fields)


def windowed(fields: Fields) -> list[Kinds]:
    """gpt-oss: windows without whose length it is not known what is kept."""
    fields.integer("sliding_window")
    return by_fields(fields)


def listed_kinds(fields: Fields) -> list[Kinds] | None:
    """What `layer_types` says, or None without it."""
    listed = fields.items("layer_types")
    if listed is None:
        return None
    for number, kind in enumerate(listed):
        if not isinstance(kind, str) or kind not in LAYER_TYPES:
            raise InputError(
                f"{fields.where}: {fields.find('layer_types')[0]}[{number}]={kind!r}, expected "
                f"one of {', '.join(LAYER_TYPES)}"
            )
    return [LAYER_TYPES[str(kind)] for kind in listed]


def _chunked(fields: Fields, layers: int) -> list[Kinds]:
    """Llama 4: layers with rotary positions see their chunk, every fourth sees everything."""
    rotary = fields.items("no_rope_layers")
    if rotary:
        return [("chunked",) if bool(flag) else ("full",) for flag in rotary]
    period = fields.integer("no_rope_layer_interval", 4)
    return [("chunked",) if (i + 1) % period else ("full",) for i in range(layers)]


def first_of_four_full(fields: Fields) -> list[Kinds]:
    """CWM: the first layer of four sees everything."""
    layers = fields.integer("num_hidden_layers")
    return listed_kinds(fields) or [("window",) if i % 4 else ("full",) for i in range(layers)]


def letters(fields: Fields) -> list[Kinds]:
    """Exaone 4: `LLLG` is three local layers and a global one, over and over."""
    listed = listed_kinds(fields)
    layers = fields.integer("num_hidden_layers")
    if listed is not None:
        return listed
    if not fields.has("sliding_window"):
        return [("full",)] * layers
    pattern = fields.find("sliding_window_pattern")[1]
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        local = [pattern[i % len(pattern)] == "L" for i in range(layers)]
        return [("window",) if one else ("full",) for one in local]
    return by_fields(fields)


def every_nth_full(fields: Fields) -> list[Kinds]:
    """A recurrence, and full attention in every `full_attention_interval`-th layer."""
    layers, period = (
        fields.integer("num_hidden_layers"),
        fields.integer("full_attention_interval", 4),
    )
    return listed_kinds(fields) or [
        ("state",) if (i + 1) % period else ("full",) for i in range(layers)
    ]


def override_pattern(fields: Fields) -> list[Kinds]:
    """Nemotron-H: a letter a layer: M(amba), * (attention), - and E (MLP, experts)."""
    known: dict[str, Kinds] = {"M": ("state",), "*": ("full",), "-": (), "E": ()}
    pattern = fields.string("hybrid_override_pattern", "")
    if not pattern:
        found = listed_kinds(fields)
        if found is None:
            raise InputError(
                f"{fields.where}: hybrid_override_pattern is missing, expected a letter a layer"
            )
        return found
    if unknown := set(pattern) - set(known):
        raise InputError(
            f"{fields.where}: hybrid_override_pattern has {sorted(unknown)[0]!r}, expected M, *, "
            "- or E a layer"
        )
    layers = fields.integer("num_hidden_layers", len(pattern))
    if len(pattern) != layers:
        raise InputError(
            f"{fields.where}: hybrid_override_pattern has {len(pattern)} letters, expected one "
            f"for each of {layers} layers"
        )
    return [known[letter] for letter in pattern]


def period_and_offset(fields: Fields) -> list[Kinds]:
    """Jamba: attention in every `attn_layer_period`-th layer from `attn_layer_offset` on."""
    period, offset = fields.integer("attn_layer_period"), fields.integer("attn_layer_offset", 0)
    layers = fields.integer("num_hidden_layers")
    return listed_kinds(fields) or [
        ("full",) if i % period == offset else ("state",) for i in range(layers)
    ]


def chosen_layers(fields: Fields) -> list[Kinds]:
    """Full attention in the layers that are numbered, a recurrence in the others."""
    listed = listed_kinds(fields)
    if listed is not None:
        return listed
    layers = fields.integer("num_hidden_layers")
    chosen = fields.numbers("attn_layer_indices", layers)
    return [("full",) if i in chosen else ("state",) for i in range(layers)]


def both(fields: Fields) -> list[Kinds]:
    """Falcon-H1: attention and a recurrence side by side in every layer."""
    return [("full", "state")] * fields.integer("num_hidden_layers")


def states_alone(fields: Fields) -> list[Kinds]:
    """Mamba: no attention at all."""
    return [("state",)] * fields.integer("num_hidden_layers")


def linear_attn_config(fields: Fields) -> list[Kinds]:
    """Kimi Linear: layers counted from 1, MLA where attention is full."""
    layers = fields.integer("num_hidden_layers")
    own = fields.nested("linear_attn_config")
    full = own.numbers("full_attn_layers", layers, first=1)
    linear = own.numbers("kda_layers", layers, first=1)
    if full & linear or len(full) + len(linear) != layers:
        raise InputError(
            f"{own.where}: full_attn_layers and kda_layers, expected each of {layers} layers in "
            "one of them"
        )
    return [("mla",) if i + 1 in full else ("state",) for i in range(layers)]


def ones_and_zeros(fields: Fields) -> list[Kinds]:
    """MiniMax: 1 is softmax attention, 0 lightning attention."""
    listed = fields.items("attn_type_list")
    if listed is None:
        return by_fields(fields)
    if unknown := [one for one in listed if one not in (0, 1) or isinstance(one, bool)]:
        raise InputError(f"{fields.where}: attn_type_list has {unknown[0]!r}, expected 0 or 1")
    return [("full",) if one else ("state",) for one in listed]


def window_marks(fields: Fields) -> list[Kinds]:
    """MiMo: 1 marks a windowed layer in `hybrid_layer_pattern`."""
    marks = fields.items("hybrid_layer_pattern")
    if marks is None:
        listed = listed_kinds(fields)
        if listed is None:
            raise InputError(
                f"{fields.where}: hybrid_layer_pattern is missing, expected 0 or 1 a layer"
            )
        return listed
    if unknown := [mark for mark in marks if mark not in (0, 1) or isinstance(mark, bool)]:
        raise InputError(
            f"{fields.where}: hybrid_layer_pattern has {unknown[0]!r}, expected 0 or 1"
        )
    return [("window",) if mark else ("full",) for mark in marks]


def numbered_full(fields: Fields) -> list[Kinds]:
    """LFM2: full attention in the layers of `full_attn_idxs`, short convolutions elsewhere."""
    listed = listed_kinds(fields)
    if listed is not None:
        return listed
    layers = fields.integer("num_hidden_layers")
    chosen = fields.numbers("full_attn_idxs", layers)
    return [("full",) if i in chosen else ("state",) for i in range(layers)]


def decoder_of_two(fields: Fields) -> list[Kinds]:
    """Encoder-decoder: each decoder layer has attention of its own and to the encoder."""
    return [("full", "cross")] * fields.integer("num_hidden_layers")
