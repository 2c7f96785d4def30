"""What the scheduler asks of whole lists, in Python's fastest words for each."""

from collections.abc import Iterable
from operator import attrgetter

from sim.plan import Chunk
from sim.sequence import Sequence


def by_admission(sequences: list[Sequence]) -> None:
    """In place, in the order in which they run."""
    sequences.sort(key=attrgetter("admission"))


def contexts(sequences: Iterable[Sequence]) -> int:
    """Tokens of all their contexts."""
    return sum([seq.target for seq in sequences])


def tokens(chunks: list[Chunk]) -> int:
    """Of all of them."""
    return sum([chunk.tokens for chunk in chunks])


def drop_preempted(chunks: list[Chunk], running: dict[int, Sequence]) -> None:
    """Whose request was preempted goes, too."""
    chunks[:] = [chunk for chunk in chunks if chunk.request in running]
