"""Microbenchmarks of whole steps, and the cost table that the simulator reads.

Points are timed in rounds, each round all of them, and the median over rounds counts: what changes
with the hour (clocks, neighbours) then falls on all points alike.
"""

import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from statistics import median
from typing import NamedTuple

import torch

from executor.assemble import Executor
from executor.cache.contiguous import Contiguous
from executor.cache.ring import Ring
from executor.cache.table import Table, sinks_of, table_for
from executor.machine import Machine, measure_hardware
from executor.model import Llama
from executor.torch_device import TorchDevice
from executor.work import Decode, Work
from sim.cost.steps_table import CostTable, DecodeLine, Line, ModelKey, PrefillLine, Section
from sim.plan import AS_PER_S, Chunk
from sim.simulation import Setup

BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CONTEXTS = (2, 256, 1024, 2048, 4096, 8192, 16_384, 32_768)
CHUNKS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
PASTS = (0, 512, 2048, 8192, 32_768)
ROUNDS = 4
TIMED = 3
"""Steps in a row of which a round takes the median: a server repeats a step on warm caches too."""


Key = tuple[str, int, int, int]
"""What a step is ("dense", "samples", "decode", "prefill"), its section, and its two sizes."""


class _Point(NamedTuple):
    device: TorchDevice
    work: Work


class NoAttention:
    """Attention left out: a step's dense part alone."""

    def begin(self, work: Work) -> None:
        """Nothing to look up."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q


def calibrate(
    setups: Sequence[Setup], machine: Machine, llama: Llama, rounds: int = ROUNDS
) -> CostTable:
    """Time steps of the setups' model and limits, under each setup's policy."""
    began = time.monotonic()
    limits = setups[0].limits
    longest, most = limits.max_num_batched_tokens, limits.max_num_seqs
    seats = Contiguous(max(longest, most), 1)
    bare = TorchDevice(llama, seats, NoAttention(), seats.units, machine.clock)
    tokens, batches = knots((*BATCHES, *CHUNKS), longest), knots(BATCHES, most)
    points: dict[Key, _Point] = {}
    for n in tokens:
        points["dense", 0, n, 0] = _Point(bare, chunk_work(n, 0))
    for n in batches:
        points["samples", 0, n, 0] = _Point(bare, decode_work(n, 1))
        points["dense", 0, n, 0] = _Point(bare, chunk_work(n, 0))
    unsampled = Work((), (Chunk(0, 0, tokens[-1], False),), ())
    points["samples", 0, 0, 0] = _Point(bare, unsampled)
    for i, setup in enumerate(setups):
        device = Executor(setup, machine, llama).fresh().device
        for kind, x, y, work in section_works(setup, device.table, batches):
            points[kind, i, x, y] = _Point(device, work)
    times = time_points(points, rounds)

    dense = {n: times["dense", 0, n, 0] for n in sorted({*tokens, *batches})}
    sampling = {0: times["samples", 0, 0, 0] - dense[tokens[-1]]}
    sampling |= {n: times["samples", 0, n, 0] - dense[n] for n in batches}
    sampling[1] = 0.0
    model = setups[0].model
    return CostTable(
        schema_version=1,
        kind="kvtwin cost table",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={
            "python": platform.python_version(),
            **{name: version(name) for name in ("kvtwin", "torch", "numpy")},
        },
        hardware=measure_hardware(machine, llama.embedding.dtype),
        model=ModelKey(name=model.name, parameters=model.parameters, dtype_bytes=model.dtype_bytes),
        method=f"median of {rounds} rounds; in each, a step to warm up and the median of {TIMED}",
        elapsed_s=time.monotonic() - began,
        dense=_line(dense),
        sampling=_line(sampling),
        sections=tuple(_section(i, setup, times) for i, setup in enumerate(setups)),
    )


def section_works(
    setup: Setup, table: Table, batches: Sequence[int]
) -> Iterator[tuple[str, int, int, Work]]:
    """Decode steps by batch and context, prefill steps by length and past, as far as they fit."""
    limits, kept = setup.limits, kept_tokens(table)
    longest = limits.max_model_len if kept is None else min(kept, limits.max_model_len)
    for batch in batches:
        for context in knots(CONTEXTS, longest):
            if fits(table, decode_work(batch, context)):
                yield "decode", batch, context, decode_work(batch, context)
    for tokens in knots(CHUNKS, min(limits.max_num_batched_tokens, limits.max_model_len)):
        room = limits.max_model_len - tokens
        for past in knots(PASTS, min(room, longest), least=0):
            if fits(table, chunk_work(tokens, past)):
                yield "prefill", tokens, past, chunk_work(tokens, past)


def knots(wanted: Iterable[int], most: int, least: int = 1) -> tuple[int, ...]:
    """Those up to `most`, and `most` itself."""
    return tuple(sorted({k for k in wanted if least <= k < most} | {most}))


def chunk_work(tokens: int, past: int) -> Work:
    """One chunk that ends its prompt."""
    return Work((), (Chunk(0, past, tokens, True),), ())


def decode_work(batch: int, context: int) -> Work:
    """So many requests that write the last token of an equal context."""
    return Work((), (), tuple(Decode(request, context) for request in range(batch)))


def kept_tokens(table: Table) -> int | None:
    """The most tokens that a sequence keeps; None: all."""
    return table.unit_slots if isinstance(table, Ring) else None


def fits(table: Table, work: Work) -> bool:
    """Whether an empty pool has room for the step."""
    lengths = [length for _, length in work.decodes]
    lengths += [chunk.start + chunk.tokens for chunk in work.chunks]
    return sum(table.units_for(length) for length in lengths) <= table.units


@torch.inference_mode()
def time_points(points: dict[Key, _Point], rounds: int) -> dict[Key, float]:
    """Median seconds of each step over the rounds; the first one only warms up."""
    times: dict[Key, list[float]] = {key: [] for key in points}
    for turn in range(rounds + 1):
        for key, (device, work) in points.items():
            table = device.table
            table.follow(Work(tuple(table.owned), (), ()))
            device.step(work)
            if turn:
                in_a_row = [device.step(work)[1] for _ in range(TIMED)]
                times[key].append(median(in_a_row) / AS_PER_S)
    return {key: median(values) for key, values in times.items()}


def _line(values: dict[int, float]) -> Line:
    ordered = sorted(values)
    return Line(knots=tuple(ordered), seconds=tuple(values[n] for n in ordered))


def _section(i: int, setup: Setup, times: dict[Key, float]) -> Section:
    lines: dict[tuple[str, int], dict[int, float]] = {}
    for (kind, section, x, y), value in times.items():
        if section == i and kind in ("decode", "prefill"):
            lines.setdefault((kind, x), {})[y] = value
    manager = setup.policy.manager(setup.pool)
    return Section(
        policy=setup.label,
        kv_dtype=setup.ledger.kv.name,
        token_bytes=manager.pool.token_bytes,
        kept_tokens=kept_tokens(table_for(manager, sinks_of(setup.policy))),
        decode=tuple(
            DecodeLine(batch=batch, context=tuple(line), seconds=tuple(line.values()))
            for (kind, batch), line in lines.items()
            if kind == "decode"
        ),
        prefill=tuple(
            PrefillLine(tokens=tokens, past=tuple(line), seconds=tuple(line.values()))
            for (kind, tokens), line in lines.items()
            if kind == "prefill"
        ),
    )
