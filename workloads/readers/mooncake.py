"""Mooncake traces (FAST'25): milliseconds, prefix-chained blocks of 512 tokens."""

from workloads.readers.format import Arrival, TraceFormat

FORMAT = TraceFormat(
    name="mooncake",
    arrival=Arrival("timestamp", "ms"),
    prompt="input_length",
    output="output_length",
    hash_ids="hash_ids",
    block_tokens=512,
)
