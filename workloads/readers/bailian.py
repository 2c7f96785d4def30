"""Alibaba Bailian traces: the column names of Mooncake, but seconds and blocks of 16 tokens."""

from workloads.readers.format import Arrival, Thread, TraceFormat

FORMAT = TraceFormat(
    name="bailian",
    # Without this mark a Bailian file would pass for Mooncake's, a thousand times too fast.
    marks=("chat_id",),
    arrival=Arrival("timestamp", "s"),
    prompt="input_length",
    output="output_length",
    hash_ids="hash_ids",
    block_tokens=16,
    thread=Thread("chat_id", "parent_chat_id"),
)
