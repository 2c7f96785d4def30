"""What servers, gateways and benchmarks log of requests, by the names they document."""

from workloads.readers.format import Arrival, TraceFormat

LITELLM = TraceFormat(  # the spend log
    name="litellm",
    arrival=Arrival("startTime", "stamp"),
    prompt="prompt_tokens",
    output="completion_tokens",
    failed_rows=True,
)
OPENAI = TraceFormat(  # a usage record a line, flat
    name="openai",
    arrival=Arrival("created", "s"),
    prompt="prompt_tokens",
    output="completion_tokens",
)
OPENAI_NESTED = TraceFormat(  # responses as they are
    name="openai-responses",
    arrival=Arrival("created", "s"),
    prompt="usage.prompt_tokens",
    output="usage.completion_tokens",
)
VIDUR = TraceFormat(
    name="vidur",
    arrival=Arrival("arrived_at", "s"),
    prompt="num_prefill_tokens",
    output="num_decode_tokens",
)
LANGFUSE = TraceFormat(  # observations
    name="langfuse",
    arrival=Arrival("startTime", "stamp"),
    prompt="usageDetails.input",
    output="usageDetails.output",
    failed_rows=True,
)
OPENTELEMETRY = TraceFormat(  # spans by the semantic conventions for generative AI
    name="opentelemetry",
    arrival=Arrival("startTimeUnixNano", "ns"),
    prompt="attributes.gen_ai.usage.input_tokens",
    output="attributes.gen_ai.usage.output_tokens",
)
AIPERF = TraceFormat(  # profile_export.jsonl
    name="aiperf",
    arrival=Arrival("metadata.request_start_ns", "ns"),
    prompt="metrics.input_sequence_length.value",
    output="metrics.output_sequence_length.value",
)
GUIDELLM = TraceFormat(
    name="guidellm",
    arrival=Arrival("start_time", "s"),
    prompt="prompt_tokens",
    output="output_tokens",
)
BENCH = TraceFormat(  # vllm bench serve --save-detailed
    name="vllm-bench",
    arrival=Arrival("start_times", "s"),
    prompt="input_lens",
    output="output_lens",
    failed_rows=True,
)

FORMATS = (
    LITELLM,
    OPENAI,
    OPENAI_NESTED,
    VIDUR,
    LANGFUSE,
    OPENTELEMETRY,
    AIPERF,
    GUIDELLM,
    BENCH,
)
