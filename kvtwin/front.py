"""What the commands `size`, `compare-run` and `report` do, as functions with results."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from sim.hardware import Device, find_device
from sim.measured.comparison import Error, Tolerance, errors, side_by_side
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.memory.ledger import Ledger, kv_budget
from sim.memory.sizing import Sizing, size_policy
from sim.model.geometry import Model
from sim.model.presets import find_model
from sim.policy.registry import label_of, parse_policy
from sim.policy.spec import Policy
from sim.run.options import size_bytes
from sim.run.report import report_runs
from sim.run.simulation import Run, execute
from workloads.errors import InputError


class Sized(NamedTuple):
    """Where a GPU's memory goes, and what a policy makes of its KV budget."""

    ledger: Ledger
    sizing: Sizing


def size(
    model: Model | str | Path,
    gpu: Device | str,
    context: int | Sequence[int],
    *,
    policy: Policy | str = "paging",
    tp: int = 1,
    max_model_len: int | None = None,
    gpu_memory_utilization: float = 0.9,
    kv_cache_memory: int | str | None = None,
    kv_cache_dtype: str = "auto",
) -> Sized:
    """How many requests of each length (`context`, in tokens) fit. All sizes are per GPU.

    Raises InputError where the model or a request doesn't fit.
    """
    lengths = (context,) if isinstance(context, int) else tuple(context)
    if not lengths:
        raise InputError("context: expected at least one length, in tokens")
    memory = kv_cache_memory
    ledger = kv_budget(
        model if isinstance(model, Model) else find_model(str(model)),
        gpu if isinstance(gpu, Device) else find_device(gpu, memory_alone=True),
        tp=tp,
        gpu_memory_utilization=gpu_memory_utilization,
        kv_cache_memory_bytes=None if memory is None else size_bytes(memory, "kv_cache_memory"),
        kv_dtype=kv_cache_dtype,
    )
    pool = ledger.pool(max_model_len or max(lengths))
    parsed = parse_policy(policy) if isinstance(policy, str) else policy
    return Sized(ledger, size_policy(parsed, label_of(parsed), pool, lengths))


class Compared(NamedTuple):
    """A measured run beside its prediction, sampled at the same instants."""

    measured: Run
    predicted: Run
    errors: list[Error]

    @property
    def within(self) -> bool:
        """Whether every judged metric is within its tolerance."""
        return all(error.within for error in self.errors)


def compare_run(
    run_dir: str | Path,
    *,
    model: str | None = None,
    gpu: str | None = None,
    tp: int | None = None,
    engine: str | None = None,
    cost: str | None = None,
    profile: str | None = None,
    tolerance: Tolerance | None = None,
) -> Compared:
    """Predict a measured run, as `kvtwin compare-run` does, and lay both side by side.

    Raises InputError where the run can't be read, or couldn't be served whole.
    """
    measured = read_measured(str(run_dir))
    setup = prediction(
        measured, model=model, gpu=gpu, tp=tp, engine=engine, cost=cost, profile=profile
    )
    pair = side_by_side(measured, execute(setup))
    return Compared(*pair, errors(*pair, tolerance))


def report(runs: Run | Path | Sequence[Run | Path], path: str | Path) -> Path:
    """Write the HTML report of runs, or of run folders, to `path`, which is returned.

    Raises InputError where a folder can't be read or the file can't be written.
    """
    listed = [runs] if isinstance(runs, Run | Path) else list(runs)
    return report_runs(listed, Path(path))


def check_policy(policy: Policy | str, histories: int = 300) -> None:
    """Check every law of a policy's manager over generated histories (`sim.policy.laws`).

    Raises AssertionError with the shortest history found that breaks one, InputError where
    hypothesis is missing or the policy accepts no pool.
    """
    try:
        from sim.policy.laws import check_policy as check
    except ModuleNotFoundError as error:
        raise InputError(f"check_policy: {error}; expected `pip install hypothesis`") from None
    check(policy, histories)
