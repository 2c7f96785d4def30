"""The traces that come with the package, by name."""

from dataclasses import dataclass
from pathlib import Path

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class ShippedTrace:
    """One shipped file; sources and changes are in data/README.md."""

    name: str
    file: str
    format: str
    licence: str
    description: str

    @property
    def path(self) -> Path:
        """Where the file is installed."""
        return _DATA / self.file


SHIPPED: tuple[ShippedTrace, ...] = (
    ShippedTrace(
        "azure-2023-conv",
        "AzureLLMInferenceTrace_conv.csv",
        "azure",
        "CC-BY-4.0",
        "Azure LLM inference 2023, conversation: an hour of chat, prompts of 1,155 tokens",
    ),
    ShippedTrace(
        "azure-2023-code",
        "AzureLLMInferenceTrace_code.csv",
        "azure",
        "CC-BY-4.0",
        "Azure LLM inference 2023, code: long prompts, outputs of 28 tokens, bursts and a long gap",
    ),
    ShippedTrace(
        "mooncake-conversation",
        "mooncake_conversation_trace.jsonl.gz",
        "mooncake",
        "Apache-2.0",
        "Mooncake (FAST'25), conversation: prompts of 12K tokens with 512-token prefix blocks",
    ),
    ShippedTrace(
        "mooncake-synthetic",
        "mooncake_synthetic_trace.jsonl.gz",
        "mooncake",
        "Apache-2.0",
        "Mooncake (FAST'25), synthetic: prompts of 15K tokens, 64 % of prefix blocks repeat",
    ),
    ShippedTrace(
        "coding-agents",
        "kv_cache_tester_conversations.jsonl.gz",
        "conversations",
        "Apache-2.0",
        "62 conversations of coding agents, 6 sub-agents: turns follow answers, 45K-token prompts",
    ),
    ShippedTrace(
        "burstgpt-sample",
        "burstgpt3_head63.csv",
        "kvtwin",
        "CC-BY-4.0",
        "BurstGPT v3, its first 63 requests: five hours of sparse use",
    ),
    ShippedTrace(
        "sharegpt-lengths",
        "sharegpt_8k_lengths.parquet",
        "lengths",
        "Apache-2.0",
        "ShareGPT turns within 8K tokens (Sarathi-Serve): lengths only",
    ),
    ShippedTrace(
        "arxiv-lengths",
        "arxiv_summarization_lengths.parquet",
        "lengths",
        "MIT",
        "arXiv summarisation within 4K tokens (Vidur): lengths only",
    ),
)


def shipped(name: str) -> ShippedTrace | None:
    """The shipped trace of that name."""
    return next((entry for entry in SHIPPED if entry.name == name), None)
