"""Which prompts begin alike, where a run's trace doesn't say: read from a small JSON file."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from sim.measured.read import read_measured, shipped_runs
from sim.measured.run import Measured
from sim.measured.transfer import transfer
from workloads.errors import InputError
from workloads.schema import PrefixBlocks, Trace


def read_prefixes(name_or_path: str, measured: Measured) -> tuple[PrefixBlocks, str]:
    """The blocks of every prompt, and in words how much is known of them.

    The file: `{"source": "…", "block_tokens": 16, "shares": [[request, earlier, blocks], …]}`:
    the request's first blocks are those of the earlier one, requests counted by arrival from 0.
    A shipped run has such a file ("inferred", from its own stamps) that names its twin, another run
    of the same conversations, whose file "transferred" carries over.
    """
    if name_or_path not in ("inferred", "transferred"):
        unit, shares, content = read_shares(Path(name_or_path))
        return prompt_blocks(measured.trace, unit, shares), str(content["source"])
    if measured.name not in shipped_runs():
        known = ", ".join(shipped_runs())
        raise InputError(f"--prefixes {name_or_path}: comes with {known} alone")
    unit, shares, content = read_shares(shipped_shares(measured.name))
    if name_or_path == "inferred":
        return prompt_blocks(measured.trace, unit, shares), str(content["source"])
    twin = read_measured(content["twin"])
    unit, shares, _ = read_shares(shipped_shares(twin.name))
    source = f"prompt sharing inferred from the stamps of {twin.name}, the same conversations"
    return prompt_blocks(measured.trace, unit, transfer(shares, twin, measured, unit)), source


def shipped_shares(name: str) -> Path:
    """The file that comes with a shipped run."""
    return Path(str(files("sim.measured").joinpath(f"runs/{name}/prefixes.json")))


def read_shares(path: Path) -> tuple[int, list[tuple[int, int, int]], dict[str, Any]]:
    """Tokens of a block, the shares, and all that the file holds."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        unit, shares = int(content["block_tokens"]), content["shares"]
        triples = [(int(a), int(b), int(c)) for a, b, c in shares]
        str(content["source"])
    except OSError as error:
        raise InputError(f"--prefixes {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(
            f"--prefixes {path}: expected source, block_tokens and shares of three numbers"
        ) from None
    return unit, triples, content


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
