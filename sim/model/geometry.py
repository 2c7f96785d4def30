"""A model's geometry: what its KV cache, its weights and its arithmetic take. All integers."""

from dataclasses import dataclass

from sim.model.layers import KV_16BIT, KvFormat, LayerGroup
from sim.model.states import StateGroup
from sim.model.weights import Weights


@dataclass(frozen=True, slots=True)
class Model:
    """A decoder. Sizes are per model unless a method takes `tp`, the GPUs it is divided over."""

    name: str
    hidden_size: int
    num_heads: int  # of queries
    intermediate_size: int  # widest MLP a token passes: active experts together count as one
    gated_mlp: bool  # gate and up projections, as in Llama; else up alone
    vocab_size: int
    max_position_embeddings: int
    rotary_dim: int  # 0: positions are not rotary
    groups: tuple[LayerGroup, ...]  # layers that keep KV of tokens
    weights: Weights
    states: tuple[StateGroup, ...] = ()  # layers whose memory of a sequence has one size
    depth: int = 0  # decoder layers; 0: each layer is in one group
    kinds: tuple[tuple[str, ...], ...] = ()  # of each decoder layer, first to last, where known
    qk_norm: bool = False  # queries and keys are normed
    kv_scheme: str = ""  # what the checkpoint says its KV cache is stored in
    source: str = ""
    notes: tuple[str, ...] = ()  # what was not counted, for people to read

    @property
    def layers(self) -> int:
        """Decoder layers, those without a KV cache included."""
        return self.depth or sum(group.layers for group in self.groups)

    @property
    def dtype_bytes(self) -> int:
        """Bytes of an activation, and of a KV element unless told otherwise."""
        return self.weights.dtype_bytes

    @property
    def parameters(self) -> int:
        """All weights, embeddings and routed experts included."""
        return self.weights.total

    # -- KV cache ----------------------------------------------------------------------------

    def kv_bytes_per_token(self, kv: KvFormat = KV_16BIT, tp: int = 1) -> int:
        """Bytes of a token on one GPU if every layer keeps it ("reserved" accounting).

        With `tp` above the KV heads each GPU still stores one head, so `tp` times this is more
        than the logical total, which is the value at tp=1.
        """
        return sum(group.token_bytes(kv, tp) for group in self.groups)

    def kv_growth_bytes(self, kv: KvFormat = KV_16BIT, tp: int = 1) -> int:
        """Bytes a token adds once every window is full ("window-capped" accounting), per GPU."""
        return sum(group.token_bytes(kv, tp) for group in self.groups if group.window is None)

    def kv_window_bytes(self, kv: KvFormat = KV_16BIT, tp: int = 1) -> int:
        """Bytes of a sequence's full windows, per GPU: the constant of the affine footprint."""
        return sum(group.token_bytes(kv, tp) * (group.window or 0) for group in self.groups)

    def state_bytes(self, tp: int = 1) -> int:
        """Bytes of a sequence's recurrent states, and of what it read of an encoder, per GPU."""
        return sum(group.sequence_bytes(tp) for group in self.states)

    def kv_sequence_bytes(self, tokens: int, kv: KvFormat = KV_16BIT, tp: int = 1) -> int:
        """Bytes that a sequence of that length must keep ("window-capped" accounting), per GPU."""
        kept = sum(group.token_bytes(kv, tp) * group.kept(tokens) for group in self.groups)
        return kept + self.state_bytes(tp)

    def formula(self, kv: KvFormat = KV_16BIT, tp: int = 1) -> str:
        """`kv_bytes_per_token` with its factors filled in, and the states of a sequence."""
        terms = [group.formula(kv, tp) for group in self.groups] or ["no layer keeps tokens"]
        text = f"{' + '.join(terms)} = {self.kv_bytes_per_token(kv, tp):,} B per token"
        if not self.states:
            return text
        states = " + ".join(group.formula(tp) for group in self.states)
        return f"{text}; {states} = {self.state_bytes(tp):,} B per sequence"

    # -- weights and arithmetic --------------------------------------------------------------

    def weight_bytes(self, tp: int = 1, expert_ranks: int = 1) -> int:
        """Bytes of weights on one of `tp` GPUs, of so many ranks that share the experts."""
        ranks = max((group.kv_heads for group in self.groups), default=1)
        mla = any(group.latent for group in self.groups)
        return self.weights.bytes_per_gpu(tp, tp if mla else min(tp, ranks), expert_ranks)

    def weight_read_bytes(self, tokens: int = 1) -> int:
        """Bytes of weights, over all GPUs, that a step of that many tokens reads.

        Less than `weight_bytes`: embedding rows are looked up, experts not chosen are not read.
        """
        return self.weights.read_bytes(tokens)

    @property
    def matmul_parameters(self) -> int:
        """Weights a token is multiplied with, without the output projection."""
        return self.weights.multiplied

    @property
    def lm_head_parameters(self) -> int:
        """Weights of the output projection: multiplied for sampled tokens alone."""
        return self.hidden_size * self.vocab_size

    def flops_per_token(self) -> int:
        """Multiplications and additions of a token's matmuls, without the output projection."""
        return 2 * self.matmul_parameters

    def flops_per_sample(self) -> int:
        """Multiplications and additions of the output projection for one sampled token."""
        return 2 * self.lm_head_parameters

    def pair_flops(self, group: LayerGroup) -> int:
        """FLOPs of attention for one query and one key it sees, over the group's layers.

        Q·K and P·V each take 2 FLOPs a head and dimension: 4 · heads · head_dim · layers. MLA
        counts its absorbed form, in which keys and values are the latent vector itself.
        """
        value_dim = group.latent_dim if group.latent else group.v_head_dim
        return 2 * self.num_heads * (group.head_dim + value_dim) * group.layers

    def rotary_table_bytes(self) -> int:
        """Bytes of the sine and cosine table an engine keeps: positions × rotary dimensions."""
        return self.max_position_embeddings * self.rotary_dim * self.dtype_bytes
