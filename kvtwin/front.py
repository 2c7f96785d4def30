"""What the commands `size`, `compare-run` and `report` do, as functions with results."""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

from kvtwin.tables import html_table
from reports.formats import number, shown_unit
from sim.commands.size_text import position_note
from sim.hardware import Device, find_device
from sim.measured.comparison import Error, Tolerance, errors, side_by_side
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.memory.latent_blocks import latent_note
from sim.memory.ledger import Ledger
from sim.memory.sizing import Sizing, size_policy
from sim.model.geometry import Model
from sim.policy.registry import label_of, parse_policy
from sim.policy.spec import Policy
from sim.run.keywords import names_told
from sim.run.ledgers import resolved
from sim.run.options import EngineOptions, check_option, size_bytes
from sim.run.report import report_runs
from sim.run.seam import check_manager, told_by
from sim.run.simulation import Run, execute
from workloads.errors import InputError
from workloads.given import check_arguments, is_whole, plain, said
from workloads.spec import suggestion

INSTEAD_OF_SIZE = {
    "output": "only the command line writes a page: kvtwin size --output",
    "plugin": "give the policy itself, policy=Mine(...)",
    "json": "results are data: sized.ledger, sized.sizing",
    "interval": "only the command line has it: kvtwin size --interval",
}
"""The command line's own options, and what Python has instead."""


class Sized(NamedTuple):
    """Where a GPU's memory goes, and what a policy makes of its KV budget."""

    ledger: Ledger
    sizing: Sizing

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the numbers, a line each, as `kvtwin size` ends."""
        policy = parse_policy(self.sizing.policy)
        beyond = position_note(self.ledger, [self.sizing]).removeprefix("note: ")
        latent = latent_note(self.ledger.model, policy)
        return (*self.ledger.model.notes, *filter(None, (beyond, latent)))

    @property
    def _title(self) -> str:
        ledger, policy = self.ledger, self.sizing.policy
        kv = f"{ledger.kv_bytes / 2**30:,.2f} GiB of KV cache"
        return f"{policy}: {ledger.model.name} on {ledger.device.name}, {kv}"

    def __repr__(self) -> str:
        fits = ", ".join(f"{f.requests:,} of {f.context_tokens:,} tokens" for f in self.sizing.fits)
        return f"<Sized {self._title}; fit: {fits}{''.join(f'; {n}' for n in self.notes)}>"

    def _repr_html_(self) -> str:
        rows = [(f"{f.context_tokens:,}", f"{f.requests:,}") for f in self.sizing.fits]
        return html_table(self._title, ("Context, tokens", "Requests that fit"), rows) + "".join(
            f"<p>{escape(note)}</p>" for note in self.notes
        )


@names_told
def size(
    model: Model | str | Path,
    gpu: Device | str,
    context: int | Sequence[int],
    *,
    policy: Policy | str = "paging",
    max_model_len: int | None = None,
    kv_free_fraction: float | None = None,
    activation_reserve: int | str | None = None,
    weight_memory: int | str | None = None,
    non_torch_memory: int | str | None = None,
    cuda_graph_memory: int | str | None = None,
    communication_memory: int | str | None = None,
    swap_space: int | str | None = None,
    data_parallel: int = 1,
    **options: Any,
) -> Sized:
    """How many requests of each length (`context`, in tokens) fit. All sizes are per GPU.

    `kvtwin size --help` says what each option is; memory is in bytes, or text such as "2GiB". Of
    `data_parallel` ranks that share a model's experts, this is one. `options` are those of
    `EngineOptions`: tp, engine, max_num_seqs, max_num_batched_tokens, gpu_memory_utilization,
    kv_cache_memory and kv_cache_dtype. Raises InputError where the model or a request doesn't fit.
    """
    ranks = plain("data_parallel", data_parallel, int)
    parts = {
        "activation_reserve_bytes": _bytes("activation_reserve", activation_reserve),
        "weight_memory_bytes": _bytes("weight_memory", weight_memory),
        "non_torch_bytes": _bytes("non_torch_memory", non_torch_memory),
        "cuda_graph_bytes": _bytes("cuda_graph_memory", cuda_graph_memory),
        "all_reduce_bytes": _bytes("communication_memory", communication_memory),
        "kv_free_fraction": plain("kv_free_fraction", kv_free_fraction, float | None),
    }
    swap_bytes = _bytes("swap_space", swap_space) or 0
    several = isinstance(context, Iterable) and not isinstance(context, str | bytes)
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
            hint = INSTEAD_OF_SIZE.get(name) or suggestion(
                name, [*known, *signature(size).parameters]
            )
            raise InputError(f"no option {name!r}; {hint}")
    device = gpu if isinstance(gpu, Device) else find_device(gpu, memory_alone=True)
    engine = resolved(EngineOptions(model=model, **options), device)
    engine.check_limits(longest)
    if ranks != 1:
        from sim.run.lockstep import refuse_ranks  # late: few models are divided so

        refuse_ranks(ranks, engine.model, engine.options.tp)
    ledger = engine.ledger(expert_ranks=ranks, **parts)
    if isinstance(policy, str):
        policy = engine.engine.sizes(policy, engine.model)
    pool = ledger.pool(max(lengths) if longest is None else longest)
    parsed = parse_policy(policy) if isinstance(policy, str) else policy
    label = label_of(parsed)
    check_manager(parsed, pool, label)
    with told_by(parsed, label):
        return Sized(ledger, size_policy(parsed, label, pool, lengths, swap_bytes))


def _bytes(name: str, given: Any) -> int | None:
    """Raises InputError for what is no size."""
    if given is None:
        return None
    size = size_bytes(int(given) if is_whole(given) else given, name)
    if size < 0:
        raise InputError(f"{name} {size} B: expected at least 0")
    return size


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


@names_told
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
