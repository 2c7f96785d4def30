"""Which block size suits a trace: empty slots against table size and the cost of looking up.

The trade of Kwon et al. (SOSP'23, section 7.2): small blocks waste less memory, large ones are read
with less overhead. It is computed from the trace's lengths, without a run.
"""

from dataclasses import dataclass

from sim.memory.ledger import Ledger
from workloads.errors import InputError
from workloads.schema import Ints, Trace, total

BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
TABLE_ENTRY_BYTES = 4  # a block's number, int32
SECTOR_BYTES = 32
"""What a GPU reads at least to look up one table entry (CUDA C++ Best Practices Guide, coalesced
access). Each layer's kernel does so for each KV head, hence a lower bound of the lookups' cost."""
LONGEST_IN_64_BITS = 2**20
"""Longer ones are weighed with Python's integers: sums of their squares may not fit 64 bits."""
SMALLEST_TILE = 16
"""Tokens in the smallest matrix tile of tensor cores (PTX ISA, mma.m16n8k16). Kernels take blocks
below it several at a time, or not at all, so none is recommended."""


@dataclass(frozen=True, slots=True)
class BlockSize:
    """What one block size costs on the trace; shares in %."""

    block_size: int
    waste: float  # of held slots, those that are empty; mean over the tokens generated
    table: float  # block tables, of the KV they name
    lookup: float  # bytes read to find blocks, of the KV bytes read
    requests: float  # of the trace's mean, how many fit into the KV budget at once

    @property
    def cost(self) -> float:
        """The three together: a percent of memory counts like a percent of reads."""
        return self.waste + self.table + self.lookup


@dataclass(frozen=True, slots=True)
class Advice:
    """The curve, and the size with the lowest cost among those that kernels take well."""

    curve: tuple[BlockSize, ...]
    recommended: int


def advise_block_size(trace: Trace, ledger: Ledger) -> Advice:
    """Weigh block sizes on a trace of at least one request.

    Raises InputError for a model with states of sequences, to which engines fit their blocks.
    """
    if ledger.model.states:
        raise InputError(
            f"{ledger.model.name} keeps a state of each sequence, and an engine's blocks are as "
            "long as a layer's state is large (kvtwin size prints them); expected another model"
        )
    curve = tuple(_weigh(trace, ledger, size) for size in BLOCK_SIZES)
    good = [row for row in curve if row.block_size >= SMALLEST_TILE]
    return Advice(curve, min(good, key=lambda row: row.cost).block_size)


def _weigh(trace: Trace, ledger: Ledger, block_size: int) -> BlockSize:
    # A request decodes with prompt ... prompt + output - 1 tokens of KV, a step each.
    first, output = trace.prompt_tokens, trace.output_tokens
    if max(int(first.max()), int(output.max())) > LONGEST_IN_64_BITS:
        first, output = first.astype(object), output.astype(object)  # Python's integers: no limit
    last = first + output - 1
    steps = total(trace.output_tokens)
    slots = total(slots_up_to(last, block_size) - slots_up_to(first - 1, block_size))
    tokens = total(last * (last + 1) // 2 - (first - 1) * first // 2)
    lookups = sum(group.layers * group.heads_per_rank(ledger.tp) for group in ledger.model.groups)
    block_bytes = block_size * ledger.token_bytes
    return BlockSize(
        block_size,
        waste=100 * (slots - tokens) / slots,
        table=100 * TABLE_ENTRY_BYTES / block_bytes,
        lookup=100 * SECTOR_BYTES * lookups / block_bytes,
        requests=ledger.kv_bytes / (slots / steps * ledger.token_bytes),
    )


def slots_up_to(lengths: Ints, block_size: int) -> Ints:
    """Sum over L = 1 ... length of the slots that L tokens hold in whole blocks."""
    full, rest = lengths // block_size, lengths % block_size
    blocks: Ints = block_size * full * (full + 1) // 2 + rest * (full + 1)
    return block_size * blocks
