"""Requests as vLLM benchmarks and LLMServingSim log them, in nanoseconds or in epoch seconds."""

from workloads.readers.format import Arrival, TraceFormat

NANOSECONDS = TraceFormat(
    name="vllm",
    arrival=Arrival("arrival_time_ns", "ns"),
    prompt="input_toks",
    output="output_toks",
)
SECONDS = TraceFormat(
    name="vllm-seconds",
    arrival=Arrival("arrival_time", "s"),
    prompt="input_toks",
    output="output_toks",
)
