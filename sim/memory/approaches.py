"""What each approach keeps, reads and gives up, over the requests of one trace."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sim.policy.answers import fresh, memory_of
from sim.policy.manager import Pool
from sim.policy.spec import Policy
from sim.sequence import Sequence

APPROACHES = {
    "preallocation": "memory: most of each buffer is never used",
    "preallocation:reserve=oracle": "nothing, but needs to know the length of the output",
    "growing": "copies of the whole context, and old and new buffer at the peak",
    "chunked": "memory: the last chunk is half empty on average",
    "paging:block_size=16": "nothing; kernels follow a block table",
    "virtual": "memory: a partly empty page for each layer's K and V",
    "paging:block_size=16+sliding_window:window=1024,sinks=4": "attention beyond the window",
    "paging:block_size=16+top_k:k=256": "attention to tokens not chosen; no memory saved",
    "paging:block_size=16+top_k:k=256,mode=evict": "evicted tokens can't come back",
    "paging:block_size=16+fp8": "3 bits of mantissa are left",
    "paging:block_size=16+int8": "rounding to 8 bits; dequantisation in every step",
    "paging:block_size=16+int4": "rounding to 4 bits; dequantisation in every step",
}
"""The approaches of the field, and what each gives up."""


@dataclass(frozen=True, slots=True)
class Row:
    """One approach: sums over all requests, each served alone from its prompt to its end.

    So it compares what policies do to the same tokens; what a full pool does to latency is
    `simulate`'s answer. Bytes at the end of each request; reads over all its decode steps.
    """

    policy: str
    gives_up: str
    requests: int  # that could be served
    payload_bytes: int
    metadata_bytes: int
    unused_bytes: int  # held, reserved or lost to fragments of buffers and blocks
    read_bytes: int
    full_bytes: int  # 16-bit KV of all the tokens

    @property
    def kept_bytes(self) -> int:
        """Payload and metadata."""
        return self.payload_bytes + self.metadata_bytes

    @property
    def compression(self) -> float:
        """16-bit KV of all tokens over what is kept for them, metadata included."""
        return self.full_bytes / self.kept_bytes if self.kept_bytes else 0.0

    @property
    def held_compression(self) -> float:
        """The same over all that is held."""
        held = self.kept_bytes + self.unused_bytes
        return self.full_bytes / held if held else 0.0


def compare(
    policy: Policy, name: str, gives_up: str, pool: Pool, lengths: Iterable[tuple[int, int]]
) -> Row:
    """Serve requests of (prompt, output) tokens one by one. `pool` stores 16 bits."""
    row = Row(name, gives_up, 0, 0, 0, 0, 0, 0)
    manager = fresh(policy, pool)
    longest = min(pool.max_len, manager.longest() + 1)
    for index, (prompt, output) in enumerate(lengths):
        if prompt + output > longest:
            continue
        seq = Sequence(index, 0, prompt, output)
        manager.admit(seq)
        manager.extend(seq, prompt)
        manager.join(seq)
        read, left = 0, output - 1
        while left and manager.growable(1):
            manager.grow(1)
            first, growth = manager.reads()
            left -= 1
            read += first
            if steps := manager.repeatable(left):
                manager.grow(steps)
                left -= steps
                read += steps * first + growth * (steps * (steps + 1) // 2)
        memory = memory_of(manager)
        manager.release(seq)
        if left:  # the pool can't hold old and new buffer
            continue
        row = replace(
            row,
            requests=row.requests + 1,
            payload_bytes=row.payload_bytes + memory.live,
            metadata_bytes=row.metadata_bytes + memory.metadata,
            unused_bytes=row.unused_bytes + memory.reserved + memory.internal,
            read_bytes=row.read_bytes + read,
            full_bytes=row.full_bytes + seq.final * pool.token_bytes,
        )
    return row
