"""What NVML and torch's allocator say of the GPU: clocks, power, temperature, memory."""

from importlib.util import find_spec
from typing import Any

import torch


def allocator_state() -> dict[str, int]:
    """Bytes on the GPU by who has them; empty where there is none.

    requested: of tensors; rounding: what the allocator gave them beyond; cached: what it keeps of
    freed ones; peaks since the process began.
    """
    if not torch.cuda.is_available():
        return {}
    stats = torch.cuda.memory_stats()
    requested, allocated = (
        stats["requested_bytes.all.current"],
        stats["allocated_bytes.all.current"],
    )
    reserved = stats["reserved_bytes.all.current"]
    free, total = torch.cuda.mem_get_info()
    return {
        "requested_bytes": requested,
        "rounding_bytes": allocated - requested,
        "cached_bytes": reserved - allocated,
        "reserved_bytes": reserved,
        "context_bytes": total - free - reserved,  # and whatever other processes hold
        "allocated_peak_bytes": stats["allocated_bytes.all.peak"],
        "reserved_peak_bytes": stats["reserved_bytes.all.peak"],
    }


def gpu_state() -> dict[str, Any]:
    """The first GPU as NVML sees it now, or why it can't be asked."""
    if find_spec("pynvml") is None:
        return {"nvml": "nvidia-ml-py is not installed"}
    import pynvml

    try:
        pynvml.nvmlInit()
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(gpu)
        return {
            "driver": str(pynvml.nvmlSystemGetDriverVersion()),
            "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM),
            "power_w": pynvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
            "temperature_c": pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU),
            "throttle_reasons": pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
            "memory_used_bytes": memory.used,
            "memory_total_bytes": memory.total,
        }
    except pynvml.NVMLError as error:
        return {"nvml": str(error)}
