"""Azure LLM inference traces of 2023 (no offset, 7-digit fractions) and 2024 (with offset)."""

from workloads.readers.format import Arrival, TraceFormat

FORMAT = TraceFormat(
    name="azure",
    arrival=Arrival("TIMESTAMP", "stamp"),
    prompt="ContextTokens",
    output="GeneratedTokens",
)
