"""What is given for a measured run against what its record tells of itself.

Another model, device or degree is another run: refused. Settings of the server are exchanged on
purpose now and then, so they are obeyed and told.
"""

from sim.cost.steps.table import CostTable, read_table
from sim.hardware import DEVICES, device_called, find_device
from sim.measured.options import Options
from sim.measured.run import CONFIG, STEPS, Measured
from sim.model.presets import find_model
from workloads.errors import InputError

SETTINGS = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "max_model_len",
    "num_gpu_blocks",
    "block_size",
    "dtype",
    "kv_cache_dtype",
    "gpu_memory_utilization",
    "enable_prefix_caching",
    "enforce_eager",
    "async_scheduling",
    "max_concurrency",
    "vllm_version",
)


def refuse_another_run(
    measured: Measured,
    told: Options,
    *,
    model: str | None,
    gpu: str | None,
    tp: int | None,
    cost: object,
) -> None:
    """Raise InputError where one of them isn't what was measured."""
    if model is not None:
        _same_model(measured, told, model)
    if gpu is not None:
        _same_device(measured, gpu, cost)
    if tp is not None:
        if tp < 1:
            raise InputError(f"--tp {tp}: expected at least 1")
        degree = told.number("tensor_parallel_size")
        if degree not in (None, tp):
            raise InputError(f"--tp {tp}: {measured.name} was measured with --tp {degree}")


def _same_model(measured: Measured, told: Options, model: str) -> None:
    given = find_model(model)
    beside = measured.beside(CONFIG)
    try:
        own = find_model(str(beside or told["model"] or ""))
    except InputError:
        return  # its name is no preset's: the option says what it is
    shape = [(m.hidden_size, m.layers, m.vocab_size, m.parameters) for m in (given, own)]
    if shape[0] != shape[1]:
        name = f"{told['model'] or own.name}"
        where = f" ({CONFIG} beside it)" if beside else ""
        raise InputError(f"--model {model}: {measured.name} was measured with {name}{where}")


def _same_device(measured: Measured, gpu: str, cost: object) -> None:
    device, own, steps = find_device(gpu), measured.gpu, measured.beside(STEPS)
    table = cost if isinstance(cost, CostTable) else read_table(steps) if steps else None
    if own is None and table is not None:
        timed = table.device().name
        known = device_called(timed)
        own = known.name if known else timed
    if own not in (None, device.name) and (measured.gpu or device.name in DEVICES):
        raise InputError(f"--gpu {gpu}: {measured.name} was measured on {own}")


def overridden(told: Options, engine: str) -> list[str]:
    """In words: settings that aren't those of the record, and what it says."""
    found = [
        f"{name} {told[name]} ({who}: {value})"
        for name, (who, value) in told.recorded.items()
        if name in SETTINGS and _plain(told[name]) != _plain(value)
    ]
    version = told.recorded.get("vllm_version")
    if version is not None and engine.partition(":")[0] != engine_of(str(version[1])):
        found.append(f"engine {engine} ({version[0]}: vllm_version {version[1]})")
    return found


def engine_of(version: str) -> str:
    """The preset's name of a version of vLLM."""
    return "vllm-" + ".".join(version.split(".")[:2])


def _plain(value: object) -> str:
    return str(value).removeprefix("torch.")
