"""What is simulated and not executed, and why: said here, and quoted by all who say it."""

import sys
from collections.abc import Callable
from typing import NamedTuple

from executor.cache.choice import table_for
from executor.cache.tensors import storage_of
from executor.device.llama_shaped import require_llama_shaped
from executor.kernels.pool import PARTS
from sim.model.geometry import Model
from sim.policy.paging import SelectPages
from sim.policy.spec import format_under
from sim.policy.top_k import SCORE_BYTES, TopK
from sim.policy.virtual import VirtualPages
from sim.run.seam import told_by
from sim.run.simulation import Setup
from workloads.errors import InputError


class Refusal(NamedTuple):
    """What is refused, as a user would write it, why, and where it applies: to a setup on a kind of
    device."""

    what: str
    why: str
    applies: Callable[[Setup, str], bool]


def _retention(setup: Setup) -> object:
    return getattr(setup.policy, "retention", None) or setup.policy


def _evicts(setup: Setup) -> bool:
    retention = _retention(setup)
    return isinstance(retention, TopK) and retention.mode == "evict"


def _selects_elsewhere(setup: Setup, kind: str) -> bool:
    retention, manager = _retention(setup), setup.manager()
    if not isinstance(retention, TopK) or retention.mode == "evict":
        return False
    return type(manager) is not SelectPages or manager.block_size != retention.page


STORES = {
    "fp8": (("fp8", "fp8_e4m3"), 0),
    "int8": (("int8", "int8_fp16", "int8_per_token_head"), 0),
    "int4": (("int4",), 16),
}
"""Of each storage but the model's type: formats that it is, and bits of a zero point. Scales are
told apart by their bytes."""


def _stored_otherwise(setup: Setup, _: str) -> bool:
    """Bytes decide what is stored, but formats of as many bytes aren't the same: fp8 with a scale a
    head takes what int8 does."""
    model = setup.model
    heads = sum(group.kv_heads * group.layers for group in model.groups)
    scores = SCORE_BYTES * heads if _evicts(setup) else 0
    try:
        stored = storage_of(model, setup.manager().pool.token_bytes - scores)
    except InputError:
        return True
    kv, dim = format_under(setup.policy, setup.ledger.kv), model.groups[0].head_dim
    bits = {"native": 8 * model.dtype_bytes, "int4": 4}.get(stored.storage, 8)
    groups = PARTS if stored.storage == "int4" else 1
    if kv.bits != bits or -(-dim // (kv.group or dim)) != groups:
        return True
    names, zero_bits = STORES.get(stored.storage, ((kv.name,), 0))
    return kv.name not in names or kv.zero_bits != zero_bits


def _virtual(setup: Setup) -> bool:
    return isinstance(setup.manager(), VirtualPages)


REFUSALS = (
    Refusal(
        "top_k (mode=select) over blocks that are not its pages",
        "a block has one landmark; expected paging:block_size=N+top_k:page=N",
        _selects_elsewhere,
    ),
    Refusal(
        "virtual with int8, int4 or top_k:mode=evict",
        "its plan has no tensors of their own for scales and scores",
        lambda setup, _: _virtual(setup) and setup.manager().pool.side_bytes > 0,
    ),
    Refusal(
        "virtual on a GPU, or on a system other than Linux",
        "its memory is reserved by mmap(2) and counted by mincore(2)",
        lambda setup, kind: _virtual(setup) and (kind != "cpu" or sys.platform != "linux"),
    ),
    Refusal(
        "fp8, int8, int4 or a --kv-cache-dtype of types or scales that it doesn't store",
        "it stores the model's type, fp8 (E4M3) without scales, int8 with a scale a head "
        "(--kv-cache-dtype int8_fp16: of 16 bits, as int8:scale=fp16), and int4 "
        "with a scale and a zero point a quarter of a head; expected one of these (int4:group=16 "
        "where heads have 64 dimensions, int4:group=32 of 128)",
        _stored_otherwise,
    ),
    Refusal(
        "an --engine that plans a step ahead",
        "the executor plans when a step has ended",
        lambda setup, _: setup.limits.rules.async_scheduling,
    ),
)


def beyond_positions(model: Model, max_model_len: int) -> str | None:
    """Why the model has no rotations for contexts of that length; None where it has."""
    if max_model_len <= model.max_position_embeddings:
        return None
    return (
        f"--max-model-len {max_model_len:,}: {model.name} has rotations for "
        f"{model.max_position_embeddings:,} positions; expected at most as many"
    )


def refusal(setup: Setup, kind: str) -> str | None:
    """Why the executor doesn't run this setup on that kind of device, in one line; None where it
    does. Models that it has no layers for say so themselves."""
    try:
        require_llama_shaped(setup.model)
        if why := beyond_positions(setup.model, setup.limits.max_model_len):
            return why
        manager = setup.manager()
        for one in REFUSALS:
            with told_by(setup.policy, setup.label):
                applies = one.applies(setup, kind)
            if applies:
                return f"{one.what} is simulated and not executed: {one.why}"
        with told_by(setup.policy, setup.label):
            table_for(manager, setup.policy)
    except InputError as error:
        return str(error).removeprefix(f"--policy {setup.label}: ")
    return None
