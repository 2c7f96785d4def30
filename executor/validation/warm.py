"""What is compiled and captured before any clock starts."""

from collections.abc import Iterator

from executor.cache.table import Table
from executor.device.assemble import Executor
from executor.device.graphs import padded_sizes
from executor.validation.calibrate import chunk_work, decode_work, fits, knots
from executor.work import Decode, Work
from sim.engine.limits import Limits
from sim.plan import Chunk


def warm(executor: Executor) -> None:
    """Run a step of every kind that launches a kernel of its own, and capture every graph."""
    device = executor.bench()
    for work in warm_up_works(device.table, executor.setup.limits):
        device.table.follow(Work(tuple(device.table.owned), (), ()))
        device.step(work)
    device.table.follow(Work(tuple(device.table.owned), (), ()))


def warm_up_works(table: Table, limits: Limits) -> Iterator[Work]:
    """Chunks without and with a context, of one token and of many; decodes that are split among
    programs and those that are not, beside a chunk and alone; every padded batch."""
    longest = limits.max_model_len
    tokens = min(limits.max_num_batched_tokens, longest // 2)
    for past in (0, 1, longest - tokens):
        for count in knots((1,), tokens):
            yield from _if_fits(table, chunk_work(count, past))
    for batch in knots((1,), limits.max_num_seqs - 1):
        for context in knots((2, longest // 4), longest):
            decodes = tuple(Decode(1 + i, context) for i in range(batch))
            yield from _if_fits(table, Work((), (Chunk(0, 0, 1, True),), decodes))
    for batch in padded_sizes(limits.max_num_seqs):
        yield from _if_fits(table, decode_work(min(batch, limits.max_num_seqs), 1))


def _if_fits(table: Table, work: Work) -> Iterator[Work]:
    if fits(table, work):
        yield work
