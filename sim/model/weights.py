"""How many weights a model has, by what a step does with them, and the bytes they take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Weights:
    """Counts of parameters. A storage of `stored_bits` per `stored_weights` parameters is exact
    for block formats: MXFP4 keeps 32 weights of 4 bits and a scale of 8 in 136 bits.
    """

    embedding: int  # tables that are looked up, not multiplied
    lm_head: int  # 0 where the output projection is the embedding table itself
    attention: int  # query and output projections
    kv_projection: int  # key and value projections: copied where GPUs outnumber KV heads
    mlp: int  # dense MLPs and shared experts
    router: int
    experts: int  # all routed experts
    active_experts: int  # the routed experts that one token passes
    vectors: int  # norms and biases, on every GPU
    other: int = 0  # vision tower and projector: resident, idle for text
    dtype_bytes: int = 2
    quantised: tuple[str, ...] = ()  # which of the fields above are stored in fewer bits
    stored_bits: int = 16
    stored_weights: int = 1

    @property
    def total(self) -> int:
        """All parameters."""
        return (
            self.embedding
            + self.lm_head
            + self.attention
            + self.kv_projection
            + self.mlp
            + self.router
            + self.experts
            + self.vectors
            + self.other
        )

    @property
    def multiplied(self) -> int:
        """Parameters that every token is multiplied with, the output projection apart."""
        dense = self.attention + self.kv_projection + self.mlp + self.router
        return dense + self.active_experts

    def field_bytes(self, field: str, count: int | None = None) -> int:
        """Bytes of `count` parameters (None: all) stored the way that field is."""
        if count is None:
            count = int(getattr(self, field))
        if field not in self.quantised:
            return count * self.dtype_bytes
        return -(-count * self.stored_bits // (self.stored_weights * 8))

    def bytes_per_gpu(self, tp: int, kv_ranks: int) -> int:
        """Bytes on one of `tp` GPUs; key and value projections are divided `kv_ranks` ways.

        Norms, biases and the router are on every GPU. Shares are rounded up.
        """
        divided = ("embedding", "lm_head", "attention", "mlp", "experts", "other")
        return (
            sum(-(-self.field_bytes(field) // tp) for field in divided)
            + -(-self.field_bytes("kv_projection") // kv_ranks)
            + self.field_bytes("router")
            + self.field_bytes("vectors")
        )

    def read_bytes(self, tokens: int) -> int:
        """Bytes of weights a step over that many tokens reads at least once.

        Embedding tables are looked up, not read. Of the routed experts, a share of
        1 − (1 − active/all)^tokens is expected to be touched if each token chooses evenly.
        """
        fields = ("lm_head", "attention", "kv_projection", "mlp", "router", "vectors")
        dense = sum(self.field_bytes(field) for field in fields)
        if not self.lm_head:  # tied: the table is the output projection too
            dense += self.field_bytes("embedding")
        if not self.experts:
            return dense
        touched = 1 - (1 - self.active_experts / self.experts) ** tokens
        return dense + self.field_bytes("experts", round(self.experts * touched))
