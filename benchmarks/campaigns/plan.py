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
    "sliding_window": 128,
    "layer_types": [
        "sliding_attention",
        "sliding_attention",
        "sliding_attention",
        "full_attention",
    ],
}

TINY = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": 64, "head_dim": 16}


TALK = [(0.1 * i, 60 + 37 * i % 120, 150 + 61 * i % 130) for i in range(12)]
"""Short questions and long answers: contexts grow by more than they begin with, so memory that
holds those who begin runs out while they decode."""


@dataclass(frozen=True)
class Campaign:
    """One load, and the policies under it. `options` are more of those of `kvtwin validate`."""

    name: str
    about: str
    config: dict[str, Any]
    trace: str
    first: int
    memory: str
    policies: tuple[str, ...]
    options: tuple[str, ...] = ()
    repeats: int = 5


CAMPAIGNS = (
    Campaign(
        "moderate",
        "Memory for all who come: what is compared is time. `virtual` reserves addresses and gets "
        "memory by the page; its bytes are those that the system counts.",
        SMALL,
        "azure-2023-conv",
        10,
        "128MiB",
        ("paging:block_size=16", "preallocation", "virtual"),
        ("--request-rate", "2.5"),
    ),
    Campaign(
        "pressed",
        "Memory for a part of those who come (`talk.csv`: ten requests a tenth of a second apart, "
        "prompts of 60 to 179 tokens, answers of 150 to 279): requests are preempted and computed "
        "again, buffers are copied, heads evict.",
        SMALL,
        "talk.csv",
        10,
        "6MiB",
        (
            "paging:block_size=16",
            "growing:start=64",
            "paging:block_size=16+top_k:k=192,mode=evict",
        ),
    ),
    Campaign(
        "swap",
        "A model of three layers with windows of 128 and a full one, in memory for a part of those "
        "who come (twelve of `talk.csv`): KV of preempted requests goes to the host and back. "
        "The first policy keeps windowed layers as full ones, the second gives back what leaves "
        "their windows, so that more fit.",
        WINDOWED,
        "talk.csv",
        12,
        "6MiB",
        ("paging:block_size=16", "paging:block_size=16,layers=capped"),
        ("--preemption", "swap"),
    ),
)


def tiny(campaign: Campaign) -> Campaign:
    """The same in seconds: what is measured says nothing, but every step of the command runs."""
    return replace(
        campaign,
        config={**campaign.config, **TINY},
        first=2,
        memory="4MiB",
        policies=campaign.policies[-1:],
        options=(*campaign.options, *("--max-num-seqs", "1", "--max-num-batched-tokens", "64")),
        repeats=1,
    )
