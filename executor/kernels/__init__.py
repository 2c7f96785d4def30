"""Kernels over a KV pool, each a folder with its reference; ``torch_ops`` has them without Triton.

Importing needs neither a GPU nor Triton. Launching needs a GPU, or TRITON_INTERPRET=1 set before
the first launch.
"""

from .blocks import copy, gather, scatter
from .decode import decode
from .pool import STORAGES, KVPool, Storage, allocate
from .prefill import prefill
from .store import store
from .topk import (
    accumulate_mass,
    allocate_landmarks,
    build_landmarks,
    page_scores,
    select,
    select_pages,
)

__all__ = [
    "STORAGES",
    "KVPool",
    "Storage",
    "accumulate_mass",
    "allocate",
    "allocate_landmarks",
    "build_landmarks",
    "copy",
    "decode",
    "gather",
    "page_scores",
    "prefill",
    "scatter",
    "select",
    "select_pages",
    "store",
]
