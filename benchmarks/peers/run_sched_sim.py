"""Run by a Python that has `sched-sim`: its chunked scheduler on a JSON trace."""

import json
import sys
import time

from sched_sim.core.event_engine import Simulator  # type: ignore[import-not-found]
from sched_sim.core.request import RequestState  # type: ignore[import-not-found]
from sched_sim.hardware.presets import get_hardware_profile  # type: ignore[import-not-found]
from sched_sim.schedulers.factory import create_scheduler  # type: ignore[import-not-found]
from sched_sim.workloads.trace_loader import load_trace_file  # type: ignore[import-not-found]

llama_2_7b = {"parameter_count_billions": 6.74, "num_kv_heads": 32}
hardware = get_hardware_profile("a100").model_copy(update=llama_2_7b)
scheduler = create_scheduler("chunked", hardware, token_budget=4096, max_batch_size=128)
simulator = Simulator(hardware, scheduler)
simulator.submit_workload(load_trace_file(sys.argv[1]))
start = time.perf_counter(), time.process_time()
simulator.run()
took = time.perf_counter() - start[0], time.process_time() - start[1]
done = sum(request.state == RequestState.COMPLETED for request in simulator.all_requests)
print(json.dumps({"wall_s": took[0], "cpu_s": took[1], "completed": done}))
