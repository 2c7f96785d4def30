"""Sessions as conversations, in the format that `workloads.readers.conversations` reads."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from workloads.errors import InputError
from workloads.schema import Trace, Turns


def conversation_lines(trace: Trace, turns: Turns) -> Iterator[str]:
    """One JSON object a line for each session, in order of their first requests.

    Times leave out how long answers take (`api_time` 0), so `t` is a request's own stamp and
    `think_time` what it waits after the answer before. Raises InputError where a request waits for
    more than the one before it in its session, which a single line of requests can't say.
    """
    if trace.prefix is None:
        raise InputError(
            f"{trace.name}: conversations name prefix blocks, expected a trace with them"
        )
    waits = np.diff(turns.offsets)
    last: dict[int, int] = {}  # the latest row of each session
    talks: dict[int, list[dict[str, Any]]] = {}
    for row in range(len(trace)):
        session = int(turns.session[row])
        before = last.get(session)
        named = turns.after[turns.offsets[row] : turns.offsets[row + 1]].tolist()
        if named != ([] if before is None else [before]) or waits[row] > 1:
            raise InputError(
                f"{trace.name}: request {row} follows others than the one before it in its session "
                "(sub-agents), which can't be written; expected sessions of one line"
            )
        last[session] = row
        start, end = trace.prefix.offsets[row : row + 2]
        talks.setdefault(session, []).append(
            {
                "t": float(trace.arrival_s[row]),
                "type": "n",
                "in": int(trace.prompt_tokens[row]),
                "out": int(trace.output_tokens[row]),
                "hash_ids": trace.prefix.ids[start:end].tolist(),
                "api_time": 0.0,
                "think_time": float(turns.delay_s[row]),
            }
        )
    for session, requests in talks.items():
        content = {
            "id": str(session),
            "block_size": trace.prefix.block_tokens,
            "hash_id_scope": "global",
            "requests": requests,
        }
        yield json.dumps(content) + "\n"
