"""What steps left of a trace, and what they left out."""

from reports.table import Table
from workloads.describe import Description


def left_out(whole: Description, part: Description) -> Table:
    """Facts before and after; of what can be counted, how much is gone."""
    rows = [
        _counted("requests", whole.requests, part.requests),
        _counted("prompt tokens", whole.prompt_tokens.total, part.prompt_tokens.total),
        _counted("output tokens", whole.output_tokens.total, part.output_tokens.total),
    ]
    if whole.sessions is not None:
        kept = part.sessions.sessions if part.sessions else 0
        rows.append(_counted("sessions", whole.sessions.sessions, kept))
        mean = part.sessions.turns_mean if part.sessions else None
        rows.append(_beside("requests a session", whole.sessions.turns_mean, mean))
    if whole.prefix is not None:
        kept = part.prefix.blocks if part.prefix else 0
        unique = part.prefix.unique_blocks if part.prefix else 0
        repeated = part.prefix.repeated if part.prefix else None
        rows += [
            _counted("prefix blocks", whole.prefix.blocks, kept),
            _counted("unique blocks", whole.prefix.unique_blocks, unique),
            _beside(
                "blocks named before (%)",
                100 * whole.prefix.repeated,
                None if repeated is None else 100 * repeated,
            ),
        ]
    rows += [
        _beside("span (s)", whole.span_s, part.span_s),
        _beside("requests/s", whole.request_rate, part.request_rate),
        _beside("inter-arrival CV", whole.inter_arrival_cv, part.inter_arrival_cv),
    ]
    for name, before, after in (
        ("prompt", whole.prompt_tokens, part.prompt_tokens),
        ("output", whole.output_tokens, part.output_tokens),
    ):
        for rank in ("p50", "p90", "p99", "max"):
            rows.append(
                _beside(f"{name} {rank} (tokens)", getattr(before, rank), getattr(after, rank))
            )
    return Table(("", "the whole", "after the steps", "left out", "left out (%)"), tuple(rows))


def _counted(name: str, before: int, after: int) -> tuple[str, ...]:
    gone = before - after
    share = f"{100 * gone / before:.1f}" if before else "–"
    return name, f"{before:,}", f"{after:,}", f"{gone:,}", share


def _beside(name: str, before: float | None, after: float | None) -> tuple[str, ...]:
    shown = tuple("–" if value is None else f"{value:,.4g}" for value in (before, after))
    return name, *shown, "", ""
