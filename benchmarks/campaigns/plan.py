"""What is validated on a CPU: three loads, each of which presses something else."""

from dataclasses import dataclass, replace
from typing import Any

SMALL: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 704,
    "vocab_size": 8192,
    "max_position_embeddings": 4096,
    "dtype": "float32",
}
"""The preset llama-small: 4,096 B of KV a token."""

WINDOWED = {
    **SMALL,
    "sliding_window": 256,
    "layer_types": [
        "sliding_attention",
        "sliding_attention",
        "sliding_attention",
        "full_attention",
    ],
}

TINY = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 64, "head_dim": 16}


@dataclass(frozen=True)
class Campaign:
    """One load, and the policies under it. `options` are those of `kvtwin validate`."""

    name: str
    about: str
    config: dict[str, Any]
    policies: tuple[str, ...]
    options: tuple[str, ...]
    repeats: int = 5


CAMPAIGNS = (
    Campaign(
        "moderate",
        "Memory for all who come: what is compared is time. `virtual` reserves addresses and gets "
        "memory by the page; its bytes are those that the system counts.",
        SMALL,
        ("paging:block_size=16", "preallocation", "virtual"),
        ("--first", "10", "--request-rate", "2.5", "--kv-cache-memory", "128MiB"),
    ),
    Campaign(
        "pressed",
        "Memory for a part of those who come: requests are preempted and computed again, buffers "
        "are copied, heads evict.",
        SMALL,
        (
            "paging:block_size=16",
            "growing:start=256",
            "paging:block_size=16+top_k:k=512,mode=evict",
        ),
        ("--first", "12", "--request-rate", "8", "--kv-cache-memory", "20MiB"),
    ),
    Campaign(
        "swap",
        "A model of three windowed layers and a full one, in memory for a part of those who come: "
        "KV of preempted requests goes to the host and back. `reserved` keeps windowed layers as "
        "full ones, `capped` gives back what leaves their windows, so that more fit.",
        WINDOWED,
        ("paging:block_size=16", "paging:block_size=16,layers=capped"),
        (
            *("--first", "12", "--request-rate", "8", "--kv-cache-memory", "16MiB"),
            *("--preemption", "swap"),
        ),
    ),
)


def tiny(campaign: Campaign) -> Campaign:
    """The same in seconds: what is measured says nothing, but every step of the command runs."""
    return replace(
        campaign,
        config={**campaign.config, **TINY},
        policies=campaign.policies[-1:],
        options=(
            *("--first", "2", "--request-rate", "8", "--kv-cache-memory", "4MiB"),
            *("--max-num-seqs", "1", "--max-num-batched-tokens", "64"),
            *campaign.options[6:],
        ),
        repeats=1,
    )
