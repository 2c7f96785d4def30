"""Run by a Python that has `ai-dynamo-runtime`: the Rust mocker on a trace of JSON lines."""

import json
import sys
import time

import dynamo._core as core  # type: ignore[import-not-found]

ENGINE = {
    "num_gpu_blocks": 7300,
    "block_size": 16,
    "max_num_seqs": 128,
    "max_num_batched_tokens": 4096,
    "max_model_len": 4096,
    "enable_prefix_caching": False,
}

start = time.perf_counter(), time.process_time()
result = core.run_mocker_trace_replay(
    [sys.argv[1]], {"engine": ENGINE}, trace_block_size=16, capture_planner_details=False
)
took = time.perf_counter() - start[0], time.process_time() - start[1]
done = result.summary["completed_requests"]
print(json.dumps({"wall_s": took[0], "cpu_s": took[1], "completed": done}))
