"""Other implementations of attention on tensors of the same sizes, to be timed beside ours."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch.nn.functional import scaled_dot_product_attention

from executor.kernels.pool import KVPool

Call = Callable[[], object]
WORKSPACE_BYTES = 128 << 20


def sdpa(q: torch.Tensor, pool: KVPool, batch: int, keys: int) -> Call:
    """Torch's own, on contiguous keys without any cache. q: [tokens, heads, head_dim].

    Queries after a context are masked by nothing: torch's causal mask has no offset.
    """
    queries = q.view(batch, -1, *q.shape[1:]).transpose(1, 2)
    kv = torch.randn(2, batch, pool.kv_heads, keys, pool.head_dim, device=q.device, dtype=q.dtype)
    causal = queries.shape[2] == keys
    k, v = kv
    return lambda: scaled_dot_product_attention(queries, k, v, is_causal=causal, enable_gqa=True)


def flashinfer(
    q: torch.Tensor, pool: KVPool, pages: list[list[int]], lengths: list[int]
) -> Call | None:
    """FlashInfer over the same pages, planned; None where it isn't installed or has no such cache.

    q: [tokens, heads, head_dim], as many tokens of each sequence; lengths count them.
    """
    if find_spec("flashinfer") is None or pool.storage != "native" or q.device.type != "cuda":
        return None
    import flashinfer as peer

    def sent(values: list[int]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int32, device=q.device)

    ends = [0]
    for own in pages:
        ends.append(ends[-1] + len(own))
    indices = sent([page for own in pages for page in own])
    last = sent([(length - 1) % pool.page_size + 1 for length in lengths])
    workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=q.device)
    heads, tokens = q.shape[1], len(q) // len(pages)
    sizes = (heads, pool.kv_heads, pool.head_dim, pool.page_size)
    if tokens == 1:
        decode = peer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
        decode.plan(sent(ends), indices, last, *sizes, q_data_type=q.dtype, kv_data_type=q.dtype)
        return lambda: decode.run(q, (pool.k, pool.v))
    prefill = peer.BatchPrefillWithPagedKVCacheWrapper(workspace, "HND")
    starts = sent([tokens * i for i in range(len(pages) + 1)])
    prefill.plan(starts, sent(ends), indices, last, *sizes, causal=True, q_data_type=q.dtype)
    return lambda: prefill.run(q, (pool.k, pool.v))
