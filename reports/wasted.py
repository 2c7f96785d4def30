"""Memory that holds no token and that no other request can have, in words."""

from collections.abc import Sequence

from reports.formats import gib
from reports.language import tr
from reports.load import Run
from reports.theme import USES, WASTE


def sentences(judged: Sequence[Run], best: Run) -> tuple[str, ...]:
    """How much of the memory holds live tokens, and who wastes most."""
    own, live = share(best), best.value("kv_live_share_mean")
    if own is None or live is None:
        return ()
    text = tr(
        "Of its KV budget of {budget}, {live} % holds live tokens on average and {wasted} % is "
        "wasted",
        budget=gib(best.info.pool.capacity_bytes),
        live=f"{live:.1f}",
        wasted=f"{own:.1f}",
    )
    worst = max(judged, key=lambda run: share(run) or 0.0)
    most = share(worst) or 0.0
    if worst is best:
        return (f"{text}{_mostly(best)}{tr('.')}",)
    lost = gib(most / 100 * worst.info.pool.capacity_bytes)
    other = tr(
        "{label} wastes most: {share} % ({size})",
        label=worst.label,
        share=f"{most:.1f}",
        size=lost,
    )
    return (f"{text}{tr('. ')}{other}{_mostly(worst)}{tr('.')}",)


def share(run: Run) -> float | None:
    """Percent of the KV budget; None where nothing says."""
    shares = [run.value(f"kv_{use}_share_mean") for use in WASTE]
    known = [share for share in shares if share is not None]
    return sum(known) if known else None


def _mostly(run: Run) -> str:
    """Names the largest part of the waste, where there is any to speak of."""
    use = max(WASTE, key=lambda use: run.value(f"kv_{use}_share_mean") or 0.0)
    share = run.value(f"kv_{use}_share_mean") or 0.0
    if share < 0.1:
        return ""
    look = USES[use]
    return tr(", most of it {use} ({meaning})", use=tr(look.label), meaning=tr(look.meaning))
