"""Microbenchmarks of whole steps, and the cost table that the simulator reads.

Points are visited in turn, cheap ones more often (as the inverse square root of what a visit takes,
which makes the most of the time spent). A round is over when all were visited, so what changes with
the hour (clocks, neighbours) falls on all points alike. Within a round the mean counts, because
what is predicted from it are sums of steps, and delays, which lengthen some steps and shorten none,
are in a sum as in a mean; a median would leave them out. Over rounds the median counts, for there
it is whole rounds that may have met with a neighbour.
"""

import platform
import random
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from heapq import heappop, heappush
from math import sqrt
from statistics import fmean, median
from typing import NamedTuple

import torch

from executor.cache.contiguous import Contiguous
from executor.cache.table import Table
from executor.device.assemble import Executor
from executor.device.llama import Llama
from executor.device.machine import Machine, measure_hardware
from executor.device.require import version_of
from executor.device.text import Text
from executor.device.torch_device import TorchDevice
from executor.work import Decode, Work
from sim.cost.steps.table import CostTable, DecodeLine, Line, ModelKey, PrefillLine, Section
from sim.plan import AS_PER_S, Chunk
from sim.run.simulation import Setup

BATCHES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
CONTEXTS = (2, 256, 1024, 2048, 4096, 8192, 16_384, 32_768)
CHUNKS = (1, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
PASTS = (0, 512, 2048, 8192, 32_768)
ROUNDS = 4
VISIT_AS = 20 * AS_PER_S // 1000
"""A visit times a step again and again for so long: a server repeats steps on warm caches, too."""


Key = tuple[str, int, int, int]
"""What a step is ("dense", "samples", "decode", "prefill"), its section, and its two sizes."""


class _Point(NamedTuple):
    device: TorchDevice
    work: Work


class Round(NamedTuple):
    """Seconds of every point."""

    seconds: dict[Key, float]
    elapsed_s: float


class NoAttention:
    """Attention left out: a step's dense part alone."""

    def begin(self, work: Work) -> None:
        """Nothing to look up."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q


class Calibration:
    """All points of some executors, which must share their model and limits.

    Steps run over the executors' own tensors, so nothing else can be held in them.
    """

    def __init__(self, executors: Sequence[Executor], machine: Machine, llama: Llama) -> None:
        self._setups = [executor.setup for executor in executors]
        self._hardware = measure_hardware(machine, llama.embedding.dtype)
        self._versions = {
            "python": platform.python_version(),
            **{name: version_of(name) for name in ("kvtwin", "torch", "numpy")},
        }
        limits = self._setups[0].limits
        longest, most = limits.max_num_batched_tokens, limits.max_num_seqs
        seats = Contiguous(max(longest, most), 1)
        text = Text(llama.model.vocab_size, machine.device, seats.units)
        bare = TorchDevice(llama, seats, NoAttention(), text, machine.clock)
        self._tokens, self._batches = knots((*BATCHES, *CHUNKS), longest), knots(BATCHES, most)
        points: dict[Key, _Point] = {}
        for n in self._tokens:
            points["dense", 0, n, 0] = _Point(bare, chunk_work(n, 0))
        for n in self._batches:
            points["samples", 0, n, 0] = _Point(bare, decode_work(n, 1))
            points["dense", 0, n, 0] = _Point(bare, chunk_work(n, 0))
        unsampled = Work((), (Chunk(0, 0, self._tokens[-1], False),), ())
        points["samples", 0, 0, 0] = _Point(bare, unsampled)
        self._tables: list[Table] = []
        for i, executor in enumerate(executors):
            device = executor.bench()
            self._tables.append(device.table)
            for kind, x, y, work in section_works(executor.setup, device.table, self._batches):
                points[kind, i, x, y] = _Point(device, work)
        self._points = points

        shuffled = random.Random(0).sample(list(points), len(points))
        self._turns: list[tuple[float, Key]] = [(i * 1e-6, key) for i, key in enumerate(shuffled)]
        self._times: dict[Key, list[float]] = {key: [] for key in points}
        self._spent = 0.0

    def spend(self, seconds: float) -> None:
        """Visit points for about so long; what is measured counts for the round under way."""
        end = self._spent + seconds
        while self._spent < end:
            self._visit()

    def round(self) -> Round:
        """Go on until every point was visited, and end the round.

        The first round of a process also warms up, and isn't to be used.
        """
        while not all(self._times.values()):
            self._visit()
        ended = Round({key: fmean(times) for key, times in self._times.items()}, self._spent)
        self._times = {key: [] for key in self._points}
        self._spent = 0.0
        return ended

    @torch.inference_mode()
    def _visit(self) -> None:
        turn, key = heappop(self._turns)
        device, work = self._points[key]
        table = device.table
        began = time.monotonic()
        table.follow(Work(tuple(table.owned), (), ()))
        device.step(work)
        took = [device.step(work)[1]]
        while sum(took) < VISIT_AS:
            took.append(device.step(work)[1])
        self._times[key].append(fmean(took) / AS_PER_S)
        elapsed = time.monotonic() - began
        self._spent += elapsed
        heappush(self._turns, (turn + sqrt(elapsed), key))

    def table(self, rounds: Sequence[Round]) -> CostTable:
        """The cost table of these rounds: each point's median (of two: their mean)."""
        times = {key: median([one.seconds[key] for one in rounds]) for key in self._points}
        tokens, batches = self._tokens, self._batches
        dense = {n: times["dense", 0, n, 0] for n in sorted({*tokens, *batches})}
        sampling = {0: times["samples", 0, 0, 0] - dense[tokens[-1]]}
        sampling |= {n: times["samples", 0, n, 0] - dense[n] for n in batches}
        sampling[1] = 0.0
        model = self._setups[0].model
        return CostTable(
            schema_version=1,
            kind="kvtwin cost table",
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            versions=self._versions,
            hardware=self._hardware,
            model=ModelKey.of(model),
            method=f"median of {len(rounds)} rounds of means over 20 ms, a step to warm up before",
            elapsed_s=sum(one.elapsed_s for one in rounds),
            dense=_line(dense),
            sampling=_line(sampling),
            sections=tuple(
                _section(i, setup, table, times)
                for i, (setup, table) in enumerate(zip(self._setups, self._tables, strict=True))
            ),
        )


def calibrate(
    setups: Sequence[Setup], machine: Machine, llama: Llama, rounds: int = ROUNDS
) -> CostTable:
    """Time steps of the setups' model and limits, under each setup's policy."""
    executors = [Executor(setup, machine, llama) for setup in setups]
    calibration = Calibration(executors, machine, llama)
    calibration.round()  # warms up
    return calibration.table([calibration.round() for _ in range(rounds)])


def section_works(
    setup: Setup, table: Table, batches: Sequence[int]
) -> Iterator[tuple[str, int, int, Work]]:
    """Decode steps by batch and context, prefill steps by length and past, as far as they fit.

    Each up to the longest that does: a full pool serves steps between that and the knot before.
    """
    limits = setup.limits
    longest = table.kept_tokens(limits.max_model_len)
    if table.ring and table.ring.scored:  # one more, and each step evicts
        longest = min(longest + 1, limits.max_model_len)
    for batch in batches:
        most = longest_fit(table, partial(decode_work, batch), 1, longest)
        for context in () if most is None else knots(CONTEXTS, most):
            yield "decode", batch, context, decode_work(batch, context)
    for tokens in knots(CHUNKS, min(limits.max_num_batched_tokens, limits.max_model_len)):
        room = limits.max_model_len - tokens
        most = longest_fit(table, partial(chunk_work, tokens), 0, min(room, longest))
        for past in () if most is None else knots(PASTS, most, least=0):
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


def fits(table: Table, work: Work) -> bool:
    """Whether an empty pool has room for the step."""
    lengths = [length for _, length in work.decodes]
    lengths += [chunk.start + chunk.tokens for chunk in work.chunks]
    return table.fits(lengths)


def longest_fit(table: Table, work: Callable[[int], Work], least: int, most: int) -> int | None:
    """The most tokens, `least` to `most`, whose step an empty pool has room for; None: none has."""
    if not fits(table, work(least)):
        return None
    longer = range(least + 1, most + 1)
    return least + bisect_left(longer, True, key=lambda tokens: not fits(table, work(tokens)))


def _line(values: dict[int, float]) -> Line:
    ordered = sorted(values)
    return Line(knots=tuple(ordered), seconds=tuple(values[n] for n in ordered))


def _section(i: int, setup: Setup, table: Table, times: dict[Key, float]) -> Section:
    """Decodes by what they read, for the simulator counts that: less than the context where some
    layers have windows, or pages are chosen."""
    token_bytes = setup.manager().pool.token_bytes
    lines: dict[tuple[str, int], dict[int, float]] = {}
    for (kind, section, x, y), value in times.items():
        if section == i and kind in ("decode", "prefill"):
            at = table.read_tokens(y, token_bytes) if kind == "decode" else y
            lines.setdefault((kind, x), {}).setdefault(at, value)
    return Section(
        policy=setup.label,
        kv_dtype=setup.ledger.kv.name,
        token_bytes=token_bytes,
        kept_tokens=table.cap,
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
