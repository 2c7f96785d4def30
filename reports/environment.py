"""Templates of pages: escaped, in the language spoken, control characters shown."""

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from reports.language import retold, tr
from workloads.outgoing import in_page


@cache
def environment() -> Environment:
    """Of reports/templates; the same one each time, as compiling them takes longer than a page.

    What language is spoken is asked while a page is rendered.
    """
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
