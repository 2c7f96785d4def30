"""A vLLM server's start-up log: what it was started with, and how many KV blocks it got.

Read are the line of options that differ from their defaults, the engine's configuration, and the
size of the KV cache; all else, such as the requests served later, is skipped.
"""

import re
from ast import literal_eval
from pathlib import Path
from typing import Any
from warnings import catch_warnings

from workloads.errors import InputError
from workloads.incoming import read_bytes

CHOSEN = re.compile(r"non-default args: (\{.*\})")
ENGINE = re.compile(r"Initializing an? .*?engine \(v([^)]+)\) with config: (.*)")
SETTING = re.compile(r"(?<![\w.])(\w+)=('[^']*'|[\w./:-]+)")
BLOCKS = re.compile(r"num_gpu_blocks is: (\d{1,15})\b|# \w+ blocks: (\d{1,15})\b", re.ASCII)
TOKENS = re.compile(r"KV cache size: (\d[\d,]{0,15}) tokens", re.ASCII)
BATCHED = re.compile(r"max_num_batched_tokens=(\d{1,15})\b", re.ASCII)
FROM_ENGINE = (
    "model",
    "dtype",
    "speculative_config",
    "max_seq_len",
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "data_parallel_size",
    "decode_context_parallel_size",
    "enforce_eager",
    "kv_cache_dtype",
    "enable_prefix_caching",
    "enable_chunked_prefill",
)


def read_server_log(file: Path) -> dict[str, Any]:
    """Options by vLLM's name. Raises InputError where the file isn't such a log."""
    text = read_bytes(file, f"--server-log {file}").decode("utf-8", "replace")
    found: dict[str, Any] = {}
    if engine := ENGINE.search(text):
        found["vllm_version"] = engine[1]
        settings = dict(SETTING.findall(engine[2]))
        found |= {k: _value(settings[k]) for k in FROM_ENGINE if k in settings}
        if settings.get("device_config") == "cpu":  # vLLM platforms/cpu.py: never planned ahead
            found["async_scheduling"] = False
    if batched := BATCHED.search(text):
        found["max_num_batched_tokens"] = int(batched[1])
    if chosen := CHOSEN.search(text):
        found |= _chosen(file, chosen[1])
    if blocks := BLOCKS.search(text):
        found["num_gpu_blocks"] = int(blocks[1] or blocks[2])
    elif tokens := TOKENS.search(text):
        size = found.get("block_size")
        blocks_of = size if type(size) is int and size > 0 else 16
        found["num_gpu_blocks"] = int(tokens[1].replace(",", "")) // blocks_of
    if not found:
        raise InputError(
            f"--server-log {file}: holds none of vLLM's start-up lines, such as "
            "'Initializing a V1 LLM engine' or 'GPU KV cache size'"
        )
    return found


def _chosen(file: Path, text: str) -> dict[str, Any]:
    try:
        with catch_warnings(action="ignore"):  # of odd escapes in texts
            chosen = literal_eval(text)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        chosen = None
    if not isinstance(chosen, dict):
        raise InputError(f"--server-log {file}: its non-default args can't be read: {text[:60]}")
    return {str(key): value for key, value in chosen.items()}


def _value(text: str) -> Any:
    named: dict[str, Any] = {"None": None, "True": True, "False": False}
    if text in named:
        return named[text]
    return int(text) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else text.strip("'")
