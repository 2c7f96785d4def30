"""Quantised storage: elements of fewer bits, with their scales and zero points, to the byte."""

from dataclasses import dataclass
from typing import Literal

from sim.model.layers import KvFormat
from sim.policy.manager import Pool, Stored
from sim.policy.spec import Storage, spec_name
from workloads.errors import InputError

Side = Literal["none", "int4", "int8", "fp8", "fp16", "bf16", "fp32"]
SIDE_BITS: dict[str, int] = {
    "none": 0, "int4": 4, "int8": 8, "fp8": 8, "fp16": 16, "bf16": 16, "fp32": 32,
}  # fmt: skip


@dataclass(frozen=True)
class Quantised(Storage):
    """Elements of `bits` bits in groups of `group` along a head's dimension (0: the whole head).

    Each group has a scale, and a zero point unless values are symmetric, of the types named.
    """

    group: int = 0
    scale: Side = "fp16"
    zero: Side = "none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group < 0:
            raise InputError(f"{self.label}: group={self.group}, expected 0 (a head) or more")

    @property
    def label(self) -> str:
        """Its name on the command line."""
        return spec_name(type(self))

    @property
    def bits(self) -> int:
        """Of one element."""
        raise NotImplementedError

    @property
    def format(self) -> KvFormat:
        """The same as `--kv-cache-dtype` has it; bytes are counted there alone."""
        scale, zero = SIDE_BITS[self.scale], SIDE_BITS[self.zero]
        return KvFormat(self.label, self.bits, self.group, scale, zero)

    @property
    def limitation(self) -> str | None:
        return self.format.limitation

    def apply(self, pool: Pool) -> Pool:
        if not pool.groups:
            raise InputError(f"{self.label}: expected a pool that knows the model's layers")
        if any(
            0 < one.key < 2 * group.heads_per_rank(pool.tp) * group.head_dim
            for group, one in zip(pool.groups, pool.stored, strict=True)
            if not group.own_bytes
        ):
            raise InputError(
                f"{self.label}: KV is stored in 8 bits already (--kv-cache-dtype); expected auto"
            )
        kinds = (group.stored(self.format, pool.tp) for group in pool.groups)
        return pool.storing(tuple(Stored(*kind) for kind in kinds))


@dataclass(frozen=True)
class Fp8(Quantised):
    """8-bit floats, by default with one scale a layer: constant, and too small to count.

    Halves bytes and reads. Costs little accuracy; needs hardware conversion to be fast.
    """

    scale: Side = "none"

    @property
    def bits(self) -> int:
        return 8


@dataclass(frozen=True)
class Int8(Quantised):
    """8-bit integers with a 32-bit scale for each token, head and tensor (vLLM's per-token-head).

    Not half: scales stay. Dequantisation takes arithmetic in every step.
    """

    scale: Side = "fp32"

    @property
    def bits(self) -> int:
        return 8


@dataclass(frozen=True)
class Int4(Quantised):
    """4-bit integers, asymmetric in groups of 32 by default (as KIVI, Liu et al., ICML'24).

    Not a quarter: a 16-bit scale and zero point for 32 elements make 5 bits of each.
    """

    group: int = 32
    scale: Side = "fp16"
    zero: Side = "fp16"

    @property
    def bits(self) -> int:
        return 4
