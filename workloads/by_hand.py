"""The gate for traces that Python made itself: their rows are as a reader's would be.

A reader checks what files hold, but a `Trace` may be made of any arrays. Each value is looked at
once, as arrays; a fault is then told as readers tell it (`workloads.readers.fault`).
"""

from typing import Any

import numpy as np

from workloads.errors import InputError
from workloads.given import said
from workloads.readers.fault import finite, whole
from workloads.schema import PrefixBlocks, Provenance, Trace, Turns
from workloads.spool import slices


def check_trace(trace: Trace) -> None:
    """Raise InputError, naming field and row (from 1), where a trace breaks what `Trace` says.

    Arrivals are finite, >= 0 and ascending, tokens whole and >= 1, and prefix blocks and turns are
    those of its rows.
    """
    for field, kinds, expected in _PARTS:
        if not isinstance(value := getattr(trace, field), kinds):
            raise InputError(f"trace: {field} is {said(value)}, expected {expected}")
    before = 0.0
    for part in slices(trace):
        arrival = trace.arrival_s[part]
        with np.errstate(invalid="ignore", over="ignore"):
            ordered = np.diff(arrival, prepend=before) >= 0  # false for NaN, too
        tokens = np.minimum(trace.prompt_tokens[part], trace.output_tokens[part])
        good = ordered & np.isfinite(arrival) & (tokens >= 1)
        if not good.all():
            raise _fault(trace, part.start + int(np.flatnonzero(~good)[0]))
        before = float(arrival[-1])
    if trace.prefix is not None:
        _check_blocks(trace, trace.prefix)
    if trace.turns is not None:
        _check_turns(trace, trace.turns)


_PARTS = (
    ("name", str, "text"),
    ("provenance", Provenance, "a Provenance"),
    ("prefix", PrefixBlocks | None, "PrefixBlocks or None"),
    ("turns", Turns | None, "Turns or None"),
)


def _fault(trace: Trace, row: int) -> InputError:
    """What is wrong with a row, counted from 0."""
    where = f"{trace.name}: row {row + 1}"
    arrival_s = float(trace.arrival_s[row])
    try:
        finite("arrival_s", arrival_s)
        whole("prompt_tokens", int(trace.prompt_tokens[row]), 1)
        whole("output_tokens", int(trace.output_tokens[row]), 1)
    except ValueError as error:
        return InputError(f"{where}: {error}")
    before_s = float(trace.arrival_s[row - 1])
    return InputError(
        f"{where}: arrival_s is {arrival_s}, expected rows in order of arrival, this one not "
        f"before {before_s}"
    )


def _check_blocks(trace: Trace, blocks: PrefixBlocks) -> None:
    if blocks.block_tokens < 1:
        raise InputError(
            f"{trace.name}: prefix.block_tokens is {blocks.block_tokens}, expected at least 1"
        )
    _check_offsets(trace, "prefix", blocks.offsets, blocks.ids, "ids")
    for part in slices(trace):
        found = np.diff(blocks.offsets[part.start : part.stop + 1])
        expected = -(-trace.prompt_tokens[part] // blocks.block_tokens)
        if len(wrong := np.flatnonzero(found != expected)):
            at = int(wrong[0])
            raise InputError(
                f"{trace.name}: row {part.start + at + 1}: prefix has {found[at]} ids, expected "
                f"{expected[at]}: {trace.prompt_tokens[part.start + at]} prompt tokens in blocks "
                f"of {blocks.block_tokens}"
            )


def _check_turns(trace: Trace, turns: Turns) -> None:
    rows = len(trace)
    for field in ("session", "turn", "delay_s"):
        if len(values := getattr(turns, field)) != rows:
            raise InputError(f"{trace.name}: turns.{field} has {len(values)} rows, expected {rows}")
    _check_offsets(trace, "turns", turns.offsets, turns.after, "rows to wait for")
    own = np.repeat(np.arange(rows), np.diff(turns.offsets))
    for field, values, good in (
        ("session is", turns.session, turns.session >= 0),
        ("turn is", turns.turn, turns.turn >= 0),
        ("delay_s is", turns.delay_s, np.isfinite(turns.delay_s) & (turns.delay_s >= 0)),
    ):
        if len(wrong := np.flatnonzero(~good)):
            at = int(wrong[0])
            raise InputError(
                f"{trace.name}: row {at + 1}: turns.{field} {values[at]}, expected at least 0"
            )
    if len(wrong := np.flatnonzero((turns.after < 0) | (turns.after >= own))):
        at = int(wrong[0])
        raise InputError(
            f"{trace.name}: row {own[at] + 1}: turns.after is {turns.after[at]}, expected a row "
            "before it, counted from 0"
        )


def _check_offsets(trace: Trace, part: str, offsets: Any, held: Any, what: str) -> None:
    """Offsets (n + 1,) that divide all that is held between the rows."""
    good = (
        len(offsets) == len(trace) + 1
        and offsets[0] == 0
        and offsets[-1] == len(held)
        and bool((np.diff(offsets) >= 0).all())
    )
    if not good:
        raise InputError(
            f"{trace.name}: {part}.offsets: expected {len(trace) + 1} ascending whole numbers from "
            f"0 to {len(held)}, the {what} of {len(trace)} requests"
        )
