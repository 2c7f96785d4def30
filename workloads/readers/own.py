"""The project's own schema, the same for CSV, JSON Lines and Parquet.

`hash_ids` is a list (numbers separated by spaces in CSV) and needs `block_tokens`, the same
number in each row. Other columns, such as a `request_id`, are ignored: a request's identity is
its place in order of arrival.
"""

from workloads.readers.format import Arrival, TraceFormat

FORMAT = TraceFormat(
    name="kvtwin",
    arrival=Arrival("arrival_s", "s"),
    prompt="prompt_tokens",
    output="output_tokens",
    hash_ids="hash_ids",
    block_tokens="block_tokens",
)
