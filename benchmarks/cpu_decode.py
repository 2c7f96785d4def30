"""How much of the machine's copy bandwidth decode attention reaches on a CPU, in plain torch.

python benchmarks/cpu_decode.py [--threads N]: GB/s of keys and values read, and their share of the
copy rate (bytes read + written) measured beside them. Best of several runs, copy and attention
taking turns, so that a busy neighbour slows both.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from executor.attention.torch_path import Span, decode
from executor.cache.table import Run
from executor.kernels import allocate

COPY_BYTES = 256 << 20
TARGETS = {"paged": 0.25, "contiguous": 0.35}


def seconds(run: Callable[[], object]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def decode_case(kind: str, dtype: torch.dtype) -> tuple[Callable[[], object], int]:
    """32 sequences of 1,024 tokens, 8 query and 2 kv heads of 64, pages of 16: run, bytes read."""
    batch, tokens, page = 32, 1024, 16
    shape = (batch * tokens // page, 2, page) if kind == "paged" else (1, 2, batch * tokens)
    pool = allocate(*shape, 64, dtype=dtype)
    pool.k.normal_()
    pool.v.normal_()
    q = torch.randn(batch, 8, 64, dtype=dtype)
    spans: list[Span] = [Run(i * tokens, (i + 1) * tokens) for i in range(batch)]
    room = None
    if kind == "paged":
        heads = torch.arange(2)[:, None]
        tables = torch.randperm(shape[0]).view(batch, -1)
        spans = [(heads + pages * 2).flatten() for pages in tables]
        room = torch.empty(2, 2 * tokens // page, page * 64, dtype=dtype)

    def run() -> object:
        return [decode(pool, span, tokens, one, room) for span, one in zip(spans, q, strict=True)]

    return run, pool.nbytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--runs", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    source = torch.ones(COPY_BYTES // 4)
    target = torch.empty_like(source)
    print(f"torch {torch.__version__}, {options.threads} threads, best of {options.runs}")
    for dtype in (torch.float32, torch.bfloat16):
        for kind, wanted in TARGETS.items():
            run, bytes_read = decode_case(kind, dtype)
            run()
            pairs = [
                (seconds(lambda: target.copy_(source)), seconds(run)) for _ in range(options.runs)
            ]
            copy_s, decode_s = (min(column) for column in zip(*pairs, strict=True))
            copy_rate, rate = 2 * COPY_BYTES / copy_s / 1e9, bytes_read / decode_s / 1e9
            print(
                f"{kind:10} {str(dtype)[6:]:8} {rate:6.2f} GB/s, copy {copy_rate:6.2f} GB/s:"
                f" {rate / copy_rate:5.1%} (wanted {wanted:.0%})"
            )


if __name__ == "__main__":
    main()
