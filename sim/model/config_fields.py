"""Typed access to a configuration's fields, with one clear line where one is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workloads.errors import InputError

ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "hidden_size": ("n_embd", "d_model", "n_embed"),
    "layer_types": ("layers_block_type",),
    "num_experts_per_tok": (
        "num_experts_per_token",
        "top_k_experts",
        "moe_top_k",
        "moe_topk",
        "moe_k",
    ),
    "intermediate_size": ("ffn_dim", "n_inner"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length"),
    "sliding_window_pattern": ("_sliding_window_pattern",),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "shared_expert_intermediate_size": (
        "moe_shared_expert_intermediate_size",
        "shared_intermediate_size",
        "share_expert_dim",
    ),
    "max_source_positions": (),
    "hidden_act": ("hidden_activation", "activation_function"),
}
"""Other names under which published configurations keep the same field."""

DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "auto": 2}
"""Types of weights and states; "auto" is what a checkpoint has, 16 bits for all current ones."""

MOST_LAYERS = 10_000  # each is looked at: more would take hours
LARGEST = 10**12  # above any count of anything: a slip, or nonsense


@dataclass(frozen=True, slots=True)
class Fields:
    """A configuration. `where` (a file, and the nested object) starts every message."""

    content: Mapping[str, object]
    where: str
    names: Mapping[str, str] = field(default_factory=dict)  # the family's spelling of a usual name

    def of_family(self, names: Mapping[str, str], defaults: Mapping[str, object]) -> "Fields":
        """The same fields, read as a family spells them, with its class's defaults."""
        return Fields(self.content, self.where, names).with_defaults(defaults)

    def with_defaults(self, defaults: Mapping[str, object]) -> "Fields":
        """The same fields, with defaults for those that are absent."""
        absent = {key: value for key, value in defaults.items() if self.find(key)[1] is None}
        return Fields({**self.content, **absent}, self.where, self.names)

    def find(self, key: str) -> tuple[str, object]:
        """The name under which the field is there, and its value; null counts as absent."""
        own = (self.names[key],) if key in self.names else ()
        for name in (*own, key, *ALIASES.get(key, ())):
            if self.content.get(name) is not None:
                return name, self.content[name]
        return own[0] if own else key, None

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.find(key)[1] is not None

    def integer(self, key: str, default: int | None = None) -> int:
        """A count. Without a default the field must be there and positive."""
        name, value = self.find(key)
        if value is None and default is not None:
            return default
        if value is None:
            raise InputError(f"{self.where}: {name} is missing, expected a positive integer")
        if isinstance(value, bool) or not isinstance(value, int) or value < (default is None):
            raise InputError(f"{self.where}: {name}={shown(value)}, expected a positive integer")
        if value > (most := MOST_LAYERS if key == "num_hidden_layers" else LARGEST):
            raise InputError(f"{self.where}: {name}={shown(value)}, expected at most {most:,}")
        return value

    def integers(self, key: str, layers: int) -> list[int]:
        """One count for all layers, or one a layer."""
        name, value = self.find(key)
        if not isinstance(value, list):
            return [self.integer(key)] * layers
        if len(value) != layers:
            raise InputError(
                f"{self.where}: {name}: {len(value)} entries, expected one for each of {layers} "
                "layers"
            )
        if wrong := [one for one in value if type(one) is not int or not 0 < one <= LARGEST]:
            raise InputError(
                f"{self.where}: {name} has {shown(wrong[0])}, expected positive integers"
            )
        return list(value)

    def numbers(self, key: str, layers: int, first: int = 0) -> set[int]:
        """A list of layers' numbers, counted from `first`."""
        name, value = self.find(key)
        if not isinstance(value, list):
            raise InputError(f"{self.where}: {name}={shown(value)}, expected a list of layers")
        if wrong := [i for i in value if type(i) is not int or not first <= i < first + layers]:
            raise InputError(
                f"{self.where}: {name} has {shown(wrong[0])}, expected layers from {first} to "
                f"{first + layers - 1}"
            )
        return set(value)

    def nested(self, key: str) -> "Fields":
        """An object within."""
        value = self.find(key)[1]
        if not isinstance(value, dict):
            raise InputError(f"{self.where}: {key}={shown(value)}, expected an object")
        return Fields(value, f"{self.where}: {key}")

    def dtype_bytes(self, key: str = "dtype", default: int | None = None) -> int:
        """Bytes of an element of the type that the field names; without it, `default`."""
        name, value = self.find(key)
        if value is None and key == "dtype":
            name, value = self.find("torch_dtype")
        if value is None or (value == "auto" and default is not None):
            return 2 if default is None else default
        if not isinstance(value, str) or value.removeprefix("torch.") not in DTYPE_BYTES:
            known = ", ".join(DTYPE_BYTES)
            raise InputError(f"{self.where}: {name}={shown(value)}, expected one of {known}")
        return DTYPE_BYTES[value.removeprefix("torch.")]

    def number(self, key: str, default: float) -> float:
        """A positive number."""
        name, value = self.find(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InputError(f"{self.where}: {name}={shown(value)}, expected a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        name, value = self.find(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {name}={shown(value)}, expected true or false")
        return value

    def string(self, key: str, default: str) -> str:
        """A text."""
        name, value = self.find(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InputError(f"{self.where}: {name}={shown(value)}, expected a string")
        return value

    def items(self, key: str) -> list[object] | None:
        """A list with one entry a layer, or None where it is absent."""
        name, value = self.find(key)
        if value is None:
            return None
        layers = self.integer("num_hidden_layers")
        if not isinstance(value, list) or len(value) != layers:
            found = f"{len(value)} entries" if isinstance(value, list) else shown(value)
            raise InputError(
                f"{self.where}: {name}: {found}, expected one for each of {layers} layers"
            )
        return value

    def head_dim(self) -> int:
        """The head dimension given, else hidden/heads where that is an integer."""
        if self.has("head_dim"):
            return self.integer("head_dim")
        hidden, heads = self.integer("hidden_size"), self.integer("num_attention_heads")
        if hidden % heads:
            raise InputError(
                f"{self.where}: head_dim is missing and hidden_size={hidden} is no multiple of "
                f"num_attention_heads={heads}"
            )
        return hidden // heads

    def kv_heads(self) -> int:
        """KV heads given; one where `multi_query` is set; else as many as query heads."""
        if self.flag("multi_query", False) and not self.flag("new_decoder_architecture", False):
            return 1
        return self.integer("num_key_value_heads", 0) or self.integer("num_attention_heads")

    def uses_rotary(self) -> bool:
        """Whether positions rotate keys: learned tables (OPT) and relative ones (T5) don't."""
        others = self.string("model_type", "") in {
            "opt",
            "gpt2",
            "gpt_bigcode",
            "whisper",
            "t5",  # relative positions
            "mt5",
            "bloom",  # ALiBi
            "jamba",  # none: its recurrence knows the order
            "nemotron_h",
        }
        none = self.string("position_embedding_type", "") == "nope"
        return not (others or none or self.flag("alibi", False))


def shown(value: object) -> str:
    """The value as Python writes it, on one line of a sensible length."""
    text = "missing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
