"""A Llama-shaped transformer for any geometry: whole steps are timed, not attention alone."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import torch
from torch.nn.functional import linear, rms_norm, silu

from executor.cache.tensors import DTYPES, layer_order
from executor.device.llama_shaped import require_llama_shaped
from sim.model.geometry import Model
from sim.model.layers import LayerGroup
from workloads.errors import InputError

EPSILON = 1e-5
ROPE_THETA = 10_000.0


class Attention(Protocol):
    """Stores a layer's keys and values in the cache and attends over what is there."""

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q: [tokens, heads, head_dim]; k, v: [tokens, kv_heads, head_dim]; the shape of q."""
        ...


class _Layer(NamedTuple):
    heads: int
    kv_heads: int
    head_dim: int
    input_norm: torch.Tensor  # [hidden]
    qkv: torch.Tensor  # [(heads + 2 * kv_heads) * head_dim, hidden]
    out: torch.Tensor  # [hidden, heads * head_dim]
    mlp_norm: torch.Tensor  # [hidden]
    gate_up: torch.Tensor  # [2 * intermediate, hidden]
    down: torch.Tensor  # [hidden, intermediate]


def layer_groups(model: Model) -> Iterator[LayerGroup]:
    """The group of each layer, in order."""
    for group, _ in layer_order(model):
        yield model.groups[group]


def weight_shapes(model: Model) -> dict[str, tuple[int, ...]]:
    """Names (those of Hugging Face's Llama) and shapes of all weights.

    Raises InputError for a geometry that isn't Llama's.
    """
    require_llama_shaped(model)
    hidden, inner = model.hidden_size, model.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (model.vocab_size, hidden)}
    for i, group in enumerate(layer_groups(model)):
        name = f"model.layers.{i}"
        queries, keys = model.num_heads * group.head_dim, group.kv_heads * group.head_dim
        shapes |= {
            f"{name}.input_layernorm.weight": (hidden,),
            f"{name}.self_attn.q_proj.weight": (queries, hidden),
            f"{name}.self_attn.k_proj.weight": (keys, hidden),
            f"{name}.self_attn.v_proj.weight": (keys, hidden),
            f"{name}.self_attn.o_proj.weight": (hidden, queries),
            f"{name}.post_attention_layernorm.weight": (hidden,),
            f"{name}.mlp.gate_proj.weight": (inner, hidden),
            f"{name}.mlp.up_proj.weight": (inner, hidden),
            f"{name}.mlp.down_proj.weight": (hidden, inner),
        }
    return shapes | {"model.norm.weight": (hidden,), "lm_head.weight": (model.vocab_size, hidden)}


def random_weights(model: Model, device: torch.device, seed: int = 0) -> dict[str, torch.Tensor]:
    """Weights that keep activations near 1, so that outputs of layouts can be compared."""
    generator = torch.Generator(device).manual_seed(seed)
    weights = {}
    for name, shape in weight_shapes(model).items():
        values = torch.empty(shape, dtype=DTYPES[model.dtype_bytes], device=device)
        if len(shape) == 1:
            values.fill_(1.0)
        else:
            values.normal_(0.0, shape[1] ** -0.5, generator=generator)
        weights[name] = values
    return weights


class Llama:
    """RMSNorm, rotary positions, grouped queries, SwiGLU. Attention is given at each call."""

    def __init__(
        self, model: Model, weights: Mapping[str, torch.Tensor], rope_theta: float = ROPE_THETA
    ) -> None:
        """Weights by Hugging Face's names; without an lm_head the embedding is used for both.

        Raises InputError naming a weight that is missing or has another shape.
        """
        weights = dict(weights)
        if "lm_head.weight" not in weights and "model.embed_tokens.weight" in weights:
            weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
        for name, shape in weight_shapes(model).items():
            if name not in weights or tuple(weights[name].shape) != shape:
                found = tuple(weights[name].shape) if name in weights else "missing"
                raise InputError(f"weight {name}: {found}, expected {shape}")
        self.model = model
        self.embedding = weights["model.embed_tokens.weight"]
        self.norm = weights["model.norm.weight"]
        self.lm_head = weights["lm_head.weight"]
        self._layers = [
            self._layer(f"model.layers.{i}", group, weights)
            for i, group in enumerate(layer_groups(model))
        ]
        self._cos, self._sin = self._rotations(rope_theta)

    def forward(
        self,
        ids: torch.Tensor,
        positions: torch.Tensor,
        sampled: torch.Tensor,
        attention: Attention,
    ) -> torch.Tensor:
        """Logits [samples, vocab] of the rows `sampled`.

        ids, positions: int64 [tokens]; sampled: int64 [samples], rows of the two.
        """
        x = self.embedding[ids]
        cos, sin = self._cos[positions], self._sin[positions]  # [tokens, 1, rotary / 2]
        for i, layer in enumerate(self._layers):
            x = x + self._attention(i, layer, x, cos, sin, attention)
            gate, up = linear(self._normed(x, layer.mlp_norm), layer.gate_up).chunk(2, -1)
            x = x + linear(silu(gate) * up, layer.down)
        return linear(self._normed(x[sampled], self.norm), self.lm_head)

    def _attention(
        self,
        i: int,
        layer: _Layer,
        x: torch.Tensor,
        cos: torch.Tensor,
        sin: torch.Tensor,
        attention: Attention,
    ) -> torch.Tensor:
        heads, kv_heads = layer.heads, layer.kv_heads
        qkv = linear(self._normed(x, layer.input_norm), layer.qkv)
        qkv = qkv.view(len(x), heads + 2 * kv_heads, layer.head_dim)
        qk = rotated(qkv[:, : heads + kv_heads], cos, sin)
        out = attention.attend(i, qk[:, :heads], qk[:, heads:], qkv[:, heads + kv_heads :])
        return linear(out.reshape(len(x), -1), layer.out)

    def _normed(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return rms_norm(x, weight.shape, weight, EPSILON)

    def _layer(self, name: str, group: LayerGroup, w: Mapping[str, torch.Tensor]) -> _Layer:
        attention, mlp = f"{name}.self_attn", f"{name}.mlp"
        return _Layer(
            self.model.num_heads,
            group.kv_heads,
            group.head_dim,
            w[f"{name}.input_layernorm.weight"],
            torch.cat([w[f"{attention}.{part}_proj.weight"] for part in "qkv"]),
            w[f"{attention}.o_proj.weight"],
            w[f"{name}.post_attention_layernorm.weight"],
            torch.cat([w[f"{mlp}.{part}_proj.weight"] for part in ("gate", "up")]),
            w[f"{mlp}.down_proj.weight"],
        )

    def _rotations(self, theta: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines [positions, 1, rotary / 2]."""
        like = self.embedding
        rotary = self.model.rotary_dim
        powers = torch.arange(0, rotary, 2, device=like.device, dtype=torch.float32) / rotary
        positions = torch.arange(self.model.max_position_embeddings, device=like.device)
        angles = torch.outer(positions.float(), theta**-powers)[:, None]
        return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary positions (Su et al., 2021), halves paired as in Llama's published weights.

    x: [tokens, heads, head_dim]; cos, sin: [tokens, 1, rotary / 2]; dimensions beyond pass through.
    """
    half = cos.shape[-1]
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)
