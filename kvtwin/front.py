"""What the commands `size`, `compare-run` and `report` do, as functions with results."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from kvtwin.tables import html_table
from reports.formats import number, shown_unit
from sim.hardware import Device, find_device
from sim.measured.comparison import Error, Tolerance, errors, side_by_side
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.memory.ledger import Ledger
from sim.memory.sizing import Sizing, size_policy
from sim.model.geometry import Model
from sim.policy.registry import label_of, parse_policy
from sim.policy.spec import Policy
from sim.run.ledgers import resolved
from sim.run.options import EngineOptions, check_option
from sim.run.report import report_runs
from sim.run.seam import check_manager, told_by
from sim.run.simulation import Run, execute
from workloads.errors import InputError
from workloads.given import check_arguments, plain, said
from workloads.spec import suggestion


class Sized(NamedTuple):
    """Where a GPU's memory goes, and what a policy makes of its KV budget."""

    ledger: Ledger
    sizing: Sizing

    @property
    def _title(self) -> str:
        ledger, policy = self.ledger, self.sizing.policy
        kv = f"{ledger.kv_bytes / 2**30:,.2f} GiB of KV cache"
        return f"{policy}: {ledger.model.name} on {ledger.device.name}, {kv}"

    def __repr__(self) -> str:
        fits = ", ".join(f"{f.requests:,} of {f.context_tokens:,} tokens" for f in self.sizing.fits)
        return f"<Sized {self._title}; fit: {fits}>"

    def _repr_html_(self) -> str:
        rows = [(f"{f.context_tokens:,}", f"{f.requests:,}") for f in self.sizing.fits]
        return html_table(self._title, ("Context, tokens", "Requests that fit"), rows)


def size(
    model: Model | str | Path,
    gpu: Device | str,
    context: int | Sequence[int],
    *,
    policy: Policy | str = "paging",
    max_model_len: int | None = None,
    **options: Any,
) -> Sized:
    """How many requests of each length (`context`, in tokens) fit. All sizes are per GPU.

    `options` are those of `EngineOptions`, as `kvtwin size` has them: tp, engine, max_num_seqs,
    max_num_batched_tokens, gpu_memory_utilization, kv_cache_memory and kv_cache_dtype. Raises
    InputError where the model or a request doesn't fit.
    """
    several = isinstance(context, Iterable) and not isinstance(context, str)
    given = tuple(context) if several else (context,)  # type: ignore[arg-type]  # as asked above
    lengths = [plain("context", length, int) for length in given]
    if not lengths:
        raise InputError("context: expected at least one length, in tokens")
    for name, value in (("policy", policy), ("gpu", gpu)):
        check_option(name, value)
    longest = plain("max_model_len", max_model_len, int | None)
    if gpu is None:
        raise InputError("gpu: missing")
    known = [field.name for field in fields(EngineOptions)]
    for name in options:
        if name not in known:
            raise InputError(f"no option {name!r}; {suggestion(name, known)}")
    device = gpu if isinstance(gpu, Device) else find_device(gpu, memory_alone=True)
    engine = resolved(EngineOptions(model=model, **options), device)
    engine.check_limits(longest)
    ledger = engine.ledger()
    if isinstance(policy, str):
        policy = engine.engine.sizes(policy, engine.model)
    pool = ledger.pool(max(lengths) if longest is None else longest)
    parsed = parse_policy(policy) if isinstance(policy, str) else policy
    label = label_of(parsed)
    check_manager(parsed, pool, label)
    with told_by(parsed, label):
        return Sized(ledger, size_policy(parsed, label, pool, lengths))


class Compared(NamedTuple):
    """A measured run beside its prediction, sampled at the same instants."""

    measured: Run
    predicted: Run
    errors: list[Error]

    @property
    def within(self) -> bool:
        """Whether every judged metric is within its tolerance."""
        return all(error.within for error in self.errors)

    @property
    def _title(self) -> str:
        judged = [error for error in self.errors if error.tolerance_pct is not None]
        within = sum(error.within for error in judged)
        setup = self.measured.setup
        where = f"{setup.model.name} on {setup.device.name}"
        return f"{where}: {within} of {len(judged)} judged metrics within tolerance"

    def __repr__(self) -> str:
        return f"<Compared {self._title}>"

    def _repr_html_(self) -> str:
        rows = [
            (
                one.label,
                number(one.measured, one.unit),
                number(one.predicted, one.unit),
                shown_unit(one.unit),
                "–" if one.error_pct is None else f"{one.error_pct:+.1f} %",
            )
            for one in self.errors
        ]
        return html_table(self._title, ("Metric", "Measured", "Predicted", "Unit", "Error"), rows)


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
    given = check_arguments(compare_run, locals())
    if not isinstance(tolerance, Tolerance | None):
        raise InputError(f"tolerance {said(tolerance)}: expected a Tolerance")
    measured = read_measured(str(run_dir))
    setup = prediction(
        measured, model=model, gpu=gpu, tp=given["tp"], engine=engine, cost=cost, profile=profile
    )
    pair = side_by_side(measured, execute(setup))
    return Compared(*pair, errors(*pair, tolerance))


def report(runs: Run | str | Path | Sequence[Run | str | Path], path: str | Path) -> Path:
    """Write the HTML report of runs, or of run folders, to `path`, which is returned.

    Raises InputError where a folder can't be read or the file can't be written.
    """
    listed: list[Any] = list(runs) if isinstance(runs, list | tuple) else [runs]
    if not listed:
        raise InputError("report: expected at least one run")
    for one in listed:
        if not isinstance(one, Run | str | Path):
            raise InputError(f"report {said(one)}: expected runs or their folders")
    return report_runs([Path(one) if isinstance(one, str) else one for one in listed], path)


def check_policy(policy: Policy | str, histories: int = 300) -> None:
    """Check every law of a policy's manager over generated histories (`sim.policy.laws`).

    Raises LawBroken, an AssertionError, with the shortest history found that breaks one; InputError
    where hypothesis is missing or the policy accepts no pool.
    """
    try:
        from sim.policy.laws import check_policy as check
    except ModuleNotFoundError as error:
        raise InputError(f"check_policy: {error}; expected `pip install hypothesis`") from None
    check_option("policy", policy)
    check(policy, plain("histories", histories, int))
