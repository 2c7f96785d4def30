"""What a reader must know before believing the times: where they come from, what isn't in them."""

from reports.language import retold, tr
from reports.load import Run


def caveats(run: Run) -> tuple[str, ...]:
    """Each warning of the cost model; nothing of a measured run."""
    if run.info.kind == "measured":
        return ()
    return tuple(retold(warning) for warning in run.info.cost.warnings)


def times(run: Run) -> str:
    """Where the times come from, without a full stop."""
    if run.info.kind == "measured":
        return tr("measured")
    name = run.info.cost.name
    if name == "roofline":
        return tr("roofline, from the device's datasheet only")
    if name == "table":
        return tr("measured kernel times: {source}", source=retold(_profile(run)))
    return tr("cost model {name}", name=name)


def _profile(run: Run) -> str:
    """The profile's name, from the constants that quote it."""
    for constant in run.info.cost.constants:
        if constant.source.startswith("profile "):
            return constant.source.removeprefix("profile ").split(":")[0]
    return "table"
