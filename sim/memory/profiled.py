"""What an engine's version takes of its budget beside weights and KV, each number with its source.

vLLM measures this at start-up: a forward pass of the largest step, the sampler for the largest
batch, then, since 0.21, what captured graphs would take (v1/worker/gpu_worker.py,
determine_available_memory). A cold start, which compiles, measures more than one whose compiled
code is cached: 0.86 against 0.22 GiB outside PyTorch, and 1.85 GiB more within it, in one public
log (1Cat-vLLM, pull request 518). The rules of versions are of warm starts.
"""

from dataclasses import dataclass, replace

from sim.hardware import Device

MIB, GIB = 2**20, 2**30


@dataclass(frozen=True, slots=True)
class ProfiledMemory:
    """The rules of one version. `logit_bytes` are live while a sampler works on a logit."""

    logit_bytes: int
    context_bytes: int
    context_why: str
    buffer_rows: int = 0
    """Rows of 32-bit logits that a sampling kernel keeps, at most one for each sequence."""
    graph_bytes: int = 0
    """Of the budget for each captured graph; 0: graphs are captured outside of it."""
    communicates: bool = False
    """Whether buffers between GPUs are counted."""
    pads: bool = False
    """Whether weights are counted as kernels pad them."""

    def sampler(self, sequences: int, vocab_size: int) -> tuple[int, str]:
        """Peak of sampling for `sequences` at once, and how it came about.

        Every GPU may gather the whole vocabulary.
        """
        rows = min(sequences, self.buffer_rows)
        size = vocab_size * (sequences * self.logit_bytes + rows * 4)
        why = f"sampler: {sequences} sequences × {vocab_size:,} logits × {self.logit_bytes} B"
        return size, why + (f" + {rows} × {vocab_size:,} × 4 B of its kernel" if rows else "")


FITTED = ProfiledMemory(
    # the logit (2) and its 32-bit copy (4), sorted value (4), its 64-bit index (8), probability (4)
    # and running sum (4)
    logit_bytes=26,
    # what two public vLLM logs of Llama-3.1-8B on an RTX 3090 (KV 3.81 GiB at 20,000 and 2.89 GiB
    # at 29,000 tokens) leave unexplained: 0.36 GiB each
    context_bytes=368 * MIB,
    context_why="CUDA context and workspaces, CUDA graphs apart",
)
"""Of no version in particular: a sampler that sorts, and a constant from two logs."""

VLLM_0_19 = ProfiledMemory(
    # Triton's kernel masks in place (vLLM pull request 33538): the logit (2), its 32-bit copy (4),
    # its probability (4) and the noise it is divided by (4)
    logit_bytes=14,
    # the kernel's buffer has a row a program, of which there are as many as multiprocessors; GPUs
    # that serve have 100 to 148 (v1/sample/ops/topk_topp_triton.py)
    buffer_rows=128,
    context_bytes=int(0.22 * GIB),
    context_why="outside PyTorch, compiled code cached (1Cat-vLLM pull request 518)",
    communicates=True,
    pads=True,
)

VLLM_0_32 = replace(
    VLLM_0_19,
    # fitted to one log: Qwen3-8B on an RTX A5000, vLLM 0.21, 86 graphs, 0.52 GiB (LMCache issue
    # 3430)
    graph_bytes=int(0.52 * GIB) // 86,
)

CUSTOM_ALL_REDUCE_BYTES = 24 * MIB
"""Two shared buffers and a table of 8 MiB each (custom_all_reduce.py, max_size and rank_data)."""

NCCL_BYTES = {"PCIe": 80 * MIB, "NVLink": 370 * MIB}
"""NCCL's own: what two public logs have outside PyTorch beyond one GPU's 0.2 GiB and the all-reduce
buffers: 0.30 GiB on two L40S (vLLM issue 15815), 0.6 GiB on four H100 (vLLM pull request 48601)."""


def captured_graphs(max_num_seqs: int) -> int:
    """Graphs that vLLM captures: of mixed batches up to twice `max_num_seqs` tokens and at most
    512, and of decodes alone up to `max_num_seqs` (config/vllm.py, _set_cudagraph_sizes)."""
    sizes: list[int] = [1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)]
    mixed = sum(size <= 2 * max_num_seqs for size in sizes)
    return mixed + sum(size <= max_num_seqs for size in sizes)


def communication_bytes(device: Device, tp: int) -> tuple[int, str]:
    """Buffers of one of `tp` GPUs for sums over all of them, and how that came about."""
    link = "NVLink" if device.peer_bytes_per_s > device.host_bytes_per_s else "PCIe"
    size = CUSTOM_ALL_REDUCE_BYTES + NCCL_BYTES[link] if tp > 1 else 0
    return size, f"custom all-reduce 24 MiB, NCCL over {link} {NCCL_BYTES[link] // MIB} MiB"
