"""Templates of pages: escaped, in the language spoken, control characters shown."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports.language import retold, tr
from workloads.outgoing import in_page


def environment() -> Environment:
    """Of reports/templates."""
    made = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        finalize=in_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update({"_": tr, "retold": retold})
    return made
