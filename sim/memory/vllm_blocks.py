"""How vLLM 0.32 cuts its KV cache for a model: groups of layers, blocks, and what it logs of them.

v1/core/kv_cache_utils.py and platforms/interface.py: layers that keep the same make groups of one
size, each with a block table of its own over one pool of equal blocks. A window's layers also hold
the chunk in flight.
"""

from dataclasses import dataclass, replace

from sim.memory.ledger import Ledger
from sim.model.geometry import Model
from sim.model.layers import KvFormat
from workloads.errors import InputError

LATENT_BLOCK = 128  # tokens of which a block of latent vectors is a multiple beside states


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers that keep the same: `page_bytes` of a block of `block_size` tokens in one of them."""

    kind: str
    layers: int
    block_size: int
    page_bytes: int
    window: int | None = None
    fixed_blocks: int | None = None  # of a request, whatever its length

    def blocks(self, tokens: int, in_flight: int) -> int:
        """Blocks of a request of that length, in one group of these layers."""
        if self.kind == "cross":  # room for as many of an encoder's tokens as a step may have
            return max(self.fixed_blocks or 0, -(-in_flight // self.block_size))
        if self.fixed_blocks is not None:
            return self.fixed_blocks
        if self.window is None:
            return -(-tokens // self.block_size)
        if self.kind == "chunked":
            return -(-min(self.window + in_flight, tokens) // self.block_size)
        return -(-min(self.window - 1 + in_flight, tokens) // self.block_size) + 1


@dataclass(frozen=True, slots=True)
class Cut:
    """A pool cut into blocks."""

    groups: tuple[Layers, ...]  # one for each block table
    block_bytes: int
    blocks: int

    def request_blocks(self, tokens: int, in_flight: int) -> int:
        """Blocks of a request of that length."""
        return sum(group.blocks(tokens, in_flight) for group in self.groups)

    def concurrency(self, max_model_len: int, in_flight: int) -> float:
        """Requests of the longest context at once: what vLLM logs as maximum concurrency."""
        return self.blocks / self.request_blocks(max_model_len, in_flight)

    def tokens(self, max_model_len: int, in_flight: int) -> int:
        """What it logs as the size of the KV cache."""
        return int(self.concurrency(max_model_len, in_flight) * max_model_len)


def cut_blocks(
    ledger: Ledger, block_size: int, max_model_len: int, prefix_caching: bool = True
) -> Cut:
    """The KV budget of a ledger as vLLM cuts it.

    A recurrence keeps one state of a request; with prefix caching also the one before it, and
    Mamba 2 a checkpoint of the prompt. Raises InputError where layers' pages can't be made equal,
    or not a block fits.
    """
    kinds = _kinds(ledger.model, ledger.kv, ledger.tp, block_size, max_model_len, prefix_caching)
    groups = _groups(kinds)
    block_bytes = max(group.layers * group.page_bytes for group in groups)
    blocks = ledger.kv_bytes // block_bytes
    if not blocks:
        raise InputError(
            f"vLLM's blocks: one takes {block_bytes} bytes, but the KV budget is {ledger.kv_bytes}"
        )
    return Cut(groups, block_bytes, blocks)


def _kinds(
    model: Model, kv: KvFormat, tp: int, block_size: int, max_model_len: int, prefix_caching: bool
) -> list[Layers]:
    """What layers keep, the block of attention grown to hold a layer's state."""
    attention = [
        (group, key + value)
        for group in model.groups
        for key, value, _ in [group.stored(kv, tp)]
        if key + value
    ]
    states = [(group, group.layer_bytes(tp)) for group in model.states]
    recurrent = max((size for group, size in states if group.kind != "cross"), default=0)
    if attention and recurrent:
        step = max(block_size, LATENT_BLOCK) if attention[0][0].latent else block_size
        widest = max(token for _, token in attention)
        block_size = max(block_size, step * -(-recurrent // (step * widest)))
    found = [
        Layers(group.kind, group.layers, block_size, block_size * token, group.window)
        for group, token in attention
    ]
    page = max((one.page_bytes for one in found), default=0)
    for group, size in states:
        if group.kind == "cross":
            blocks = -(-size // page)
            found.append(Layers("cross", group.layers, block_size, page, fixed_blocks=blocks))
        else:
            held = 1 + prefix_caching * (2 if group.kind == "mamba2" else 1)
            length = block_size if prefix_caching and attention else max_model_len
            padded = max(size, page)
            found.append(Layers(group.kind, group.layers, length, padded, fixed_blocks=held))
    return found


def _groups(kinds: list[Layers]) -> tuple[Layers, ...]:
    if len({(one.window, one.fixed_blocks, one.kind == "chunked") for one in kinds}) == 1:
        # the same tokens in every layer: one table, whatever the layers' sizes
        layers = sum(one.layers for one in kinds)
        total = sum(one.layers * one.page_bytes for one in kinds)
        if total % layers:
            return (replace(kinds[0], layers=1, page_bytes=total),)
        return (replace(kinds[0], layers=layers, page_bytes=total // layers),)
    page = max(one.page_bytes for one in kinds)
    equal = [_padded(one, page) for one in kinds]
    least, most = min(one.layers for one in equal), max(one.layers for one in equal)
    size = most if most < 1.5 * least else least
    return tuple(replace(one, layers=size) for one in equal for _ in range(-(-one.layers // size)))


def _padded(one: Layers, page: int) -> Layers:
    """A longer block where that makes pages equal, else one with a part that stays empty."""
    if one.fixed_blocks is None and page % one.page_bytes == 0:
        longer = one.block_size * (page // one.page_bytes)
        return replace(one, block_size=longer, page_bytes=page)
    if one.kind in {"mla", "sparse_mla", "indexer"} and one.page_bytes != page:
        raise InputError(
            f"vLLM's blocks: {one.kind} layers' pages of {one.page_bytes} B can't be made {page} B"
        )
    return replace(one, page_bytes=page)
