"""Which prompts begin alike, where a run's trace doesn't say: read from a small JSON file."""

import json
from importlib.resources import files
from pathlib import Path

import numpy as np

from sim.measured.read import Measured, shipped_runs
from workloads.errors import InputError
from workloads.schema import PrefixBlocks, Trace


def read_prefixes(name_or_path: str, measured: Measured) -> tuple[PrefixBlocks, str]:
    """The blocks of every prompt, and in words how much is known of them.

    The file: `{"source": "…", "block_tokens": 16, "shares": [[request, earlier, blocks], …]}`:
    the request's first blocks are those of the earlier one, requests counted by arrival from 0.
    """
    path = Path(name_or_path)
    if name_or_path == "inferred":
        if measured.name not in shipped_runs():
            raise InputError(f"--prefixes inferred: comes with {', '.join(shipped_runs())} alone")
        path = Path(str(files("sim.measured").joinpath(f"runs/{measured.name}/prefixes.json")))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        unit, shares = int(content["block_tokens"]), content["shares"]
        triples = [(int(a), int(b), int(c)) for a, b, c in shares]
        source = str(content["source"])
    except OSError as error:
        raise InputError(f"--prefixes {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"--prefixes {path}: expected source, block_tokens and shares of three numbers"
        ) from None
    return prompt_blocks(measured.trace, unit, triples), source


def prompt_blocks(trace: Trace, unit: int, shares: list[tuple[int, int, int]]) -> PrefixBlocks:
    """Ids of every prompt's blocks: shared ones are named after the first request with them."""
    parent: dict[int, tuple[int, int]] = {}
    for request, earlier, blocks in shares:
        if not 0 <= earlier < request < len(trace):
            raise InputError(
                f"--prefixes: {request} shares with {earlier}, expected an earlier one"
            )
        parent[request] = earlier, blocks
    counts = -(-trace.prompt_tokens // unit)
    most = int(counts.max())
    ids: list[int] = []
    for request, count in enumerate(counts.tolist()):
        for block in range(count):
            owner = request
            while owner in parent and block < parent[owner][1]:
                owner = parent[owner][0]
            ids.append(owner * most + block)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    return PrefixBlocks(unit, offsets, np.array(ids, dtype=np.int64))
