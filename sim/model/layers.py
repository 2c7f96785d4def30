"""What one kind of attention layer stores per token. Counts are integers; nothing is rounded."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["full", "window", "chunked", "mla", "shared"]


@dataclass(frozen=True, slots=True)
class KvFormat:
    """Bytes of a stored KV element, and of its scale for each token, head and tensor (K, V)."""

    name: str
    element_bytes: int
    scale_bytes: int = 0


KV_16BIT = KvFormat("16-bit", 2)


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Equal attention layers.

    kind: "full" keeps K and V of every token; "window" of the last `window` tokens; "chunked" of
    the current chunk of `window` tokens; "mla" keeps one latent vector (plus a rotary key) for all
    heads (DeepSeek-V2, arXiv:2405.04434, section 2.1); "shared" reads another layer's cache.
    """

    layers: int
    kind: Kind
    kv_heads: int
    head_dim: int  # of a key; for "mla" latent + rotary dimensions
    v_head_dim: int  # of a value; 0 for "mla", whose values are read from the key's latent part
    window: int | None = None  # tokens; for "window" and "chunked" alone
    latent_dim: int = 0  # for "mla" alone: the part of the key that values are read from

    def heads_per_rank(self, tp: int = 1) -> int:
        """KV heads a GPU stores: max(1, kv_heads // tp). A latent vector can't be divided."""
        return 1 if self.kind == "mla" else max(1, self.kv_heads // tp)

    def token_bytes(self, kv: KvFormat, tp: int = 1) -> int:
        """Bytes of one token over this group's layers on one of `tp` GPUs, while it is kept."""
        if self.kind == "shared":
            return 0
        elements = (self.head_dim + self.v_head_dim) * kv.element_bytes
        scales = (2 if self.v_head_dim else 1) * kv.scale_bytes
        return self.layers * self.heads_per_rank(tp) * (elements + scales)

    def kept(self, tokens: int) -> int:
        """Tokens that a sequence of that length keeps in these layers."""
        return tokens if self.window is None else min(tokens, self.window)

    def formula(self, kv: KvFormat, tp: int = 1) -> str:
        """`token_bytes` with its factors, such as `2 × 32 layers × 32 heads × 128 × 2 B`."""
        kind = "" if self.kind == "full" else f"{self.kind} "
        if self.kind == "shared":
            return f"{self.layers} shared layers × 0 B"
        if self.kind == "mla":
            rotary = self.head_dim - self.latent_dim
            text = f"{self.layers} mla layers × ({self.latent_dim} + {rotary})"
        elif self.head_dim == self.v_head_dim:
            text = f"2 × {self.layers} {kind}layers × {self._heads(tp)} × {self.head_dim}"
        else:
            dims = f"({self.head_dim} + {self.v_head_dim})"
            text = f"{self.layers} {kind}layers × {self._heads(tp)} × {dims}"
        text += f" × {kv.element_bytes} B"
        if kv.scale_bytes:
            vectors = (2 if self.v_head_dim else 1) * self.layers * self.heads_per_rank(tp)
            text += f" + {vectors:,} scales × {kv.scale_bytes} B"
        return text

    def _heads(self, tp: int) -> str:
        split = f" of {self.kv_heads}" if tp > 1 else ""
        heads = self.heads_per_rank(tp)
        return f"{heads}{split} head{'' if heads == 1 else 's'}"
