"""What equal layers store of each token. Counts are integers; nothing is rounded."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

Kind = Literal["full", "window", "chunked", "mla", "sparse_mla", "indexer", "shared"]


class Vector(NamedTuple):
    """Bytes of one stored vector: K or V of one head and token."""

    payload: int
    scales: int
    zeros: int
    padding: int  # of an incomplete last group, and to whole bytes


@dataclass(frozen=True, slots=True)
class KvFormat:
    """How KV elements are stored, by `--kv-cache-dtype` as by a policy's storage.

    `bits` are those of one element; each `group` of them along a vector (0: all) has a scale and a
    zero point of so many bits.
    """

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 0
    zero_bits: int = 0

    def vector(self, elements: int) -> Vector:
        """Bytes of a vector of that many elements. All groups are stored whole."""
        size = self.group or elements
        groups = -(-elements // size)
        payload = -(-elements * self.bits // 8)
        scales, zeros = (-(-groups * bits // 8) for bits in (self.scale_bits, self.zero_bits))
        return Vector(payload, scales, zeros, -(-groups * size * self.bits // 8) - payload)

    @property
    def limitation(self) -> str | None:
        """What answers lose, of a model that computes in 16 bits."""
        return f"rounds keys and values to {self.bits} bits" if self.bits < 16 else None


KV_16BIT = KvFormat("16-bit", 16)


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Equal layers that keep something of every token, or of the last ones.

    kind: "full" keeps K and V of every token; "window" of the last `window` tokens; "chunked" of
    the current chunk of `window` tokens; "mla" keeps one latent vector (plus a rotary key) for all
    heads (DeepSeek-V2, arXiv:2405.04434, section 2.1); "sparse_mla" the same, of which a query
    reads few tokens, and "indexer" is the key cache by which they are chosen; "shared" reads
    another layer's cache.
    """

    layers: int
    kind: Kind
    kv_heads: int
    head_dim: int  # of a key; for latent kinds latent + rotary dimensions
    v_head_dim: int  # of a value; 0 where values are read from the key's latent part
    window: int | None = None  # tokens; for "window" and "chunked" alone
    latent_dim: int = 0  # for latent kinds alone: the part of the key that values are read from
    own_bytes: int = 0  # of a token in one layer, where no --kv-cache-dtype changes it
    own_side: int = 0  # of them, scales
    selects: int | None = None  # tokens that a query reads, where an indexer chooses them

    @property
    def latent(self) -> bool:
        """One vector for all heads, which GPUs can't divide."""
        return self.kind in {"mla", "sparse_mla", "indexer"}

    def heads_per_rank(self, tp: int = 1) -> int:
        """KV heads a GPU stores: max(1, kv_heads // tp). A latent vector can't be divided."""
        return 1 if self.latent else max(1, self.kv_heads // tp)

    def stored(self, kv: KvFormat, tp: int = 1) -> tuple[int, int, int]:
        """Bytes of one token in one layer on one of `tp` GPUs: key, value, and scales of both."""
        if self.kind == "shared":
            return 0, 0, 0
        if self.own_bytes:
            return self.own_bytes, 0, self.own_side
        if self.kind == "sparse_mla" and kv.bits == 8:
            return self._packed()
        heads = self.heads_per_rank(tp)
        key = kv.vector(self.head_dim)
        if not self.v_head_dim:
            return heads * sum(key), 0, heads * sum(key[1:])
        value = kv.vector(self.v_head_dim)
        return heads * sum(key), heads * sum(value), heads * sum(key[1:] + value[1:])

    def _packed(self) -> tuple[int, int, int]:
        """FlashMLA's 8-bit row: the latent part in 8 bits, a 32-bit scale for each 128 of it, and
        rotary dimensions in 16 (DeepSeek-V3.2: 512 + 4 × 4 + 64 × 2 = 656 B)."""
        scales = 4 * -(-self.latent_dim // 128)
        return self.latent_dim + scales + 2 * (self.head_dim - self.latent_dim), 0, scales

    def token_bytes(self, kv: KvFormat, tp: int = 1) -> int:
        """Bytes of one token over this group's layers on one of `tp` GPUs, while it is kept."""
        key, value, _ = self.stored(kv, tp)
        return self.layers * (key + value)

    def kept(self, tokens: int) -> int:
        """Tokens that a sequence of that length keeps in these layers."""
        return tokens if self.window is None else min(tokens, self.window)

    def formula(self, kv: KvFormat, tp: int = 1) -> str:
        """`token_bytes` with its factors, such as `2 × 32 layers × 32 heads × 128 × 2 B`."""
        kind = "" if self.kind == "full" else f"{self.kind} "
        if self.kind == "shared":
            return f"{self.layers} shared layers × 0 B"
        key, _, side = self.stored(kv, tp)
        if self.own_bytes or (self.kind == "sparse_mla" and kv.bits == 8):
            scales = f" (of them {side} of scales)" if side else ""
            return f"{self.layers} {kind}layers × {key} B{scales}"
        if self.latent:
            rotary = self.head_dim - self.latent_dim
            text = f"{self.layers} {kind}layers × ({self.latent_dim} + {rotary})"
        elif self.head_dim == self.v_head_dim:
            text = f"2 × {self.layers} {kind}layers × {self._heads(tp)} × {self.head_dim}"
        else:
            dims = f"({self.head_dim} + {self.v_head_dim})"
            text = f"{self.layers} {kind}layers × {self._heads(tp)} × {dims}"
        text += f" × {kv.bits // 8} B" if kv.bits % 8 == 0 else f" × {kv.bits} bits"
        return text + (f" + {self.layers * side:,} B of scales" if side else "")

    def _heads(self, tp: int) -> str:
        split = f" of {self.kv_heads}" if tp > 1 else ""
        heads = self.heads_per_rank(tp)
        return f"{heads}{split} head{'' if heads == 1 else 's'}"
