"""Pairs of prompt and output length without arrivals, as Vidur and Sarathi-Serve publish them."""

from workloads.readers.format import TraceFormat

FORMAT = TraceFormat(
    name="lengths",
    arrival=None,
    prompt="num_prefill_tokens",
    output="num_decode_tokens",
)
