"""BurstGPT v1 to v3: by column name, since v3 inserts columns; failed requests are in the file."""

from workloads.readers.format import Arrival, Elapsed, Thread, TraceFormat

FORMAT = TraceFormat(
    name="burstgpt",
    arrival=Arrival("Timestamp", "s"),
    prompt="Request tokens",
    output="Response tokens",
    failed_rows=True,
    thread=Thread("Session ID", elapsed=Elapsed("Elapsed time")),  # since version 3
)
