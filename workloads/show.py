"""Prints a catalog or a description on stdout, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from workloads.catalog import ShippedTrace
from workloads.console import console, sheet
from workloads.describe import DEFINITIONS, Description, TokenStats

if TYPE_CHECKING:
    from rich.table import Table


def print_catalog(shipped: Sequence[ShippedTrace]) -> None:
    """Print one row a shipped trace."""
    table = sheet("name", "format", "licence", "description")
    for entry in shipped:
        table.add_row(entry.name, entry.format, entry.licence, entry.description)
    console().print(table)


def print_description(description: Description) -> None:
    """Print what was read, when requests arrive, and how long they are."""
    out = console()
    out.print(_facts(description))
    out.print(_lengths(description))
    out.print(f"Percentiles: {DEFINITIONS['percentiles']}.", style="dim", highlight=False)


def facts(description: Description) -> list[tuple[str, str]]:
    """What is known of a trace beside its lengths, as names and texts."""
    provenance = description.provenance
    found = {
        "source": provenance.source,
        "read as": provenance.reader or "none",
        "rows read": f"{provenance.rows_read:,}",
        "requests": f"{description.requests:,}",
    }
    found |= {f"dropped: {reason}": f"{n:,}" for reason, n in provenance.dropped.items()}
    found |= {
        "span": _number(description.span_s, 2, " s"),
        "rate (requests / span)": _number(description.request_rate, 4, " requests/s"),
        "inter-arrival CV": _number(description.inter_arrival_cv, 3),
    }
    if (prefix := description.prefix) is not None:
        blocks = f"{prefix.blocks:,} of {prefix.block_tokens} tokens"
        found["prefix blocks"] = f"{blocks}, {prefix.unique_blocks:,} unique"
        found["seen before (unlimited cache)"] = f"{prefix.repeated:.2%} of blocks"
    if (sessions := description.sessions) is not None:
        found |= {
            "sessions": f"{sessions.sessions:,} in {sessions.lines:,} lines of requests",
            "requests a session": f"{sessions.turns_mean:,.1f} on average, at most "
            f"{sessions.turns_max:,}",
            "pause p50, p90, longest": ", ".join(
                _number(pause, 1, " s")
                for pause in (sessions.pause_p50_s, sessions.pause_p90_s, sessions.pause_max_s)
            ),
        }
        if sessions.full_blocks:
            share = sessions.reused_blocks / sessions.full_blocks
            found["reused within a line"] = (
                f"{sessions.reused_blocks:,} of {sessions.full_blocks:,} full blocks, {share:.2%}"
            )
    return [*found.items(), *(("note", note) for note in provenance.notes)]


def _facts(description: Description) -> "Table":
    table = sheet("fact", "value")
    table.title, table.title_justify = Text(description.name), "left"
    for name, value in facts(description):
        table.add_row(name, Text(value))
    return table


def _lengths(description: Description) -> "Table":
    numbers = ("p50", "p90", "p99", "mean", "min", "max", "total")
    table = sheet("tokens", *numbers, right=numbers)
    for name, stats in (
        ("prompt", description.prompt_tokens),
        ("output", description.output_tokens),
    ):
        table.add_row(name, *_cells(stats))
    return table


def _cells(stats: TokenStats) -> list[str]:
    fractional = [f"{value:,.1f}" for value in (stats.p50, stats.p90, stats.p99, stats.mean)]
    return [*fractional, *(f"{value:,}" for value in (stats.min, stats.max, stats.total))]


def _number(value: float | None, digits: int, unit: str = "") -> str:
    return "none" if value is None else f"{value:,.{digits}f}{unit}"
