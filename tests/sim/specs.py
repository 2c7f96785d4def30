"""Policies and compositions under every law.

Those of a manager (`policy/test_contract.py`), of a whole run (`test_laws.py`), and of
fast-forwarding against single steps (`engine/test_fast_forward.py`). Numbers are small, for the
tests' traces and memory are. A new policy is a line here.
"""

SPECS = (
    "paging:block_size=1",
    "paging:block_size=16",
    "paging:block_size=4,watermark=0.1",
    "paging:block_size=4+prefix",
    "paging:block_size=4+prefix:reuse=oldest",
    "paging:block_size=1,watermark=0.1+prefix",
    "paging:block_size=4+sliding_window:window=8,sinks=2+int4",
    "paging:block_size=4+top_k:k=8,page=4",
    "paging:block_size=4+top_k:k=8,mode=evict",
    "paging:block_size=2,layers=unified",
    "paging:block_size=2,layers=capped",
    "paging:block_size=3,layers=capped,watermark=0.1+int8",
    "paging:block_size=2,layers=capped+prefix",
    "chunked:chunk_tokens=16",
    "growing:start=4",
    "growing:start=3,step=5,allocator=buddy+fp8",
    "growing:start=2+sliding_window:window=8,sinks=1",
    "virtual",
    "virtual+sliding_window:window=20,sinks=1",
    "preallocation",
    "preallocation:max_len=24,allocator=buddy",
    "preallocation:max_len=24+top_k:k=6,page=4",
    "preallocation:reserve=pow2,allocator=buddy",
    "preallocation:reserve=oracle,allocator=buddy",
    "preallocation:reserve=oracle+sliding_window:window=8,sinks=1+int8",
    "sliding_window:window=8,sinks=2",
    "sliding_window:window=1,sinks=0",
)
