"""Typed access to a configuration's fields, with one clear line where one is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass

from workloads.errors import InputError

ALIASES: dict[str, tuple[str, ...]] = {
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("n_head", "n_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv"),
    "hidden_size": ("n_embd", "d_model"),
    "intermediate_size": ("ffn_dim", "n_inner"),
    "max_position_embeddings": ("n_positions", "max_seq_len", "seq_length"),
    "sliding_window_pattern": ("_sliding_window_pattern",),
    "num_experts": ("num_local_experts", "n_routed_experts"),
    "hidden_act": ("hidden_activation", "activation_function"),
}
"""Other names under which published configurations keep the same field."""

CLASS_DEFAULTS: dict[str, dict[str, object]] = {
    # A config.json omits what equals its class's default, so the class (model_type) supplies it.
    # Source: transformers, models/*/configuration_*.py.
    "gemma": {"head_dim": 256, "tie_word_embeddings": True},
    "gemma2": {"head_dim": 256, "tie_word_embeddings": True, "sliding_window_pattern": 2},
    "gemma3_text": {
        "head_dim": 256,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "sliding_window_pattern": 6,
        "tie_word_embeddings": True,
        "vocab_size": 262208,
        "max_position_embeddings": 131072,
    },
    "cohere2": {"sliding_window_pattern": 4, "tie_word_embeddings": True},
    "opt": {"tie_word_embeddings": True},
    "gpt2": {"tie_word_embeddings": True},
    "phi": {"partial_rotary_factor": 0.5},
}


@dataclass(frozen=True, slots=True)
class Fields:
    """A configuration. `where` (a file, and the nested object) starts every message."""

    content: Mapping[str, object]
    where: str

    def with_defaults(self, defaults: Mapping[str, object]) -> "Fields":
        """The same fields, with defaults for those that are absent."""
        absent = {key: value for key, value in defaults.items() if self.find(key)[1] is None}
        return Fields({**self.content, **absent}, self.where)

    def find(self, key: str) -> tuple[str, object]:
        """The name under which the field is there, and its value; null counts as absent."""
        for name in (key, *ALIASES.get(key, ())):
            if self.content.get(name) is not None:
                return name, self.content[name]
        return key, None

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
            raise InputError(f"{self.where}: {name}={value!r}, expected a positive integer")
        return value

    def number(self, key: str, default: float) -> float:
        """A positive number."""
        name, value = self.find(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise InputError(f"{self.where}: {name}={value!r}, expected a positive number")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        name, value = self.find(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {name}={value!r}, expected true or false")
        return value

    def string(self, key: str, default: str) -> str:
        """A text."""
        name, value = self.find(key)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InputError(f"{self.where}: {name}={value!r}, expected a string")
        return value

    def items(self, key: str) -> list[object] | None:
        """A list with one entry a layer, or None where it is absent."""
        name, value = self.find(key)
        if value is None:
            return None
        layers = self.integer("num_hidden_layers")
        if not isinstance(value, list) or len(value) != layers:
            found = f"{len(value)} entries" if isinstance(value, list) else repr(value)
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
        """Whether positions rotate keys: learned position tables (OPT, GPT-2) don't."""
        learned = self.string("model_type", "") in {"opt", "gpt2", "gpt_bigcode"}
        return not (learned or self.flag("alibi", False))
