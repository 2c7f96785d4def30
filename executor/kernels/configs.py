"""Tile sizes by architecture, storage and head size: a table, nothing is tuned at import."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch

from .pool import Storage

LOG2E = 1.4426950408889634  # kernels work in base 2: exp2 is one instruction


@dataclass(frozen=True, slots=True)
class Config:
    """block_n keys a step; block_m query rows (prefill); resident programs a multiprocessor."""

    block_n: int
    warps: int
    stages: int
    block_m: int = 0
    resident: int = 2


def decode_config(arch: int, storage: Storage, head_dim: int, dtype: torch.dtype) -> Config:
    """Codes pay for their unpacking with long tiles: fewer steps, fewer reductions a key."""
    wide = head_dim > 128
    if storage == "native":
        if dtype == torch.float32:
            return Config(16 if wide else 32, 8, 2)
        return Config(32 if wide else 64, 4, 3, resident=3)
    if storage == "int4" and not wide:
        # Quarter heads of 16 fill the matrix tiles of two warps, not of four; and weights, which
        # each of a tile's warps needs from all others, change hands four times.
        return Config(64, 2, 3, resident=8 if head_dim <= 64 else 4)
    return Config(64 if wide else 128, 4, 3, resident=3)


def prefill_config(arch: int, storage: Storage, head_dim: int, dtype: torch.dtype) -> Config:
    """The largest tiles that fit in registers. 128 query rows and 8 warps let sm_90 use wgmma with
    two warp groups; a context that is unpacked on the way leaves room for 64 alone."""
    wide = head_dim > 128
    if dtype == torch.float32:
        return Config(16, 8, 1, block_m=16) if wide else Config(32, 8, 2, block_m=16)
    if storage != "native":
        return Config(32, 8, 2, block_m=32) if wide else Config(64, 8, 2, block_m=64)
    if arch >= 90:
        return Config(32 if wide else 128, 8, 2, block_m=128)
    if wide:
        return Config(64, 8, 2, block_m=64)
    return Config(32 if head_dim > 64 else 64, 8, 3, block_m=128)


def ceil_div(total: int, part: int) -> int:
    return -(-total // part)


def pow2_above(number: int) -> int:
    """The least power of two that is not below: sizes of Triton's tiles."""
    return 1 << (number - 1).bit_length()


@cache
def device_arch(device: torch.device) -> int:
    """Compute capability as an integer (90 for sm_90). Off the GPU any row of the table will do."""
    if device.type != "cuda":
        return 90
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


@cache
def multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def resident_programs(registers: int, shared_bytes: int, warps: int, chip_shared_bytes: int) -> int:
    """Programs that a multiprocessor holds at once, of registers a thread and shared memory.

    There are 65,536 registers, handed to warps in units of 256; each program takes 1 KiB of shared
    memory more than it asks for (CUDA C++ Programming Guide, compute capabilities 8 and 9).
    """
    by_registers = 65_536 // (ceil_div(registers * 32, 256) * 256 * warps)
    by_shared = chip_shared_bytes // (shared_bytes + 1024)
    return max(1, min(by_registers, by_shared, 64 // warps))
