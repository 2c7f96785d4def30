"""What servers, gateways and benchmarks log of requests, by the names they document."""

from workloads.readers.format import Arrival, Elapsed, Thread, TraceFormat

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
    failed_rows=True,
)
OPENAI_NESTED = TraceFormat(  # completions as they are
    name="openai-completions",
    arrival=Arrival("created", "s"),
    prompt="usage.prompt_tokens",
    output="usage.completion_tokens",
    failed_rows=True,
)
OPENAI_RESPONSES = TraceFormat(  # of the Responses API
    name="openai-responses",
    arrival=Arrival("created_at", "s"),
    prompt="usage.input_tokens",
    output="usage.output_tokens",
    failed_rows=True,
)
OPENAI_BATCH = TraceFormat(  # a batch's output file
    name="openai-batch",
    arrival=Arrival("response.body.created", "s"),
    prompt="response.body.usage.prompt_tokens",
    output="response.body.usage.completion_tokens",
    failed_rows=True,
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
    failed_rows=True,
    thread=Thread(
        "metadata.x_correlation_id", elapsed=Elapsed("metrics.request_latency.value", "ms")
    ),
)
GUIDELLM_TIMES = TraceFormat(  # since its version 0.3
    name="guidellm-times",
    arrival=Arrival("request_start_time", "s"),
    prompt="prompt_tokens",
    output="output_tokens",
)
GUIDELLM = TraceFormat(
    name="guidellm",
    arrival=Arrival("start_time", "s"),
    prompt="prompt_tokens",
    output="output_tokens",
)
BENCH_LENGTHS = TraceFormat(  # sglang.bench_serving, and the above without --save-detailed
    name="bench-lengths",
    arrival=None,
    prompt="input_lens",
    output="output_lens",
    failed_rows=True,
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
    OPENAI_RESPONSES,
    OPENAI_BATCH,
    VIDUR,
    LANGFUSE,
    OPENTELEMETRY,
    AIPERF,
    GUIDELLM,
    GUIDELLM_TIMES,
    BENCH,
    BENCH_LENGTHS,
)
