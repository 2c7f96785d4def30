"""What a page carries inside it: styles, scripts, and plotly's basic bundle.

static/plotly-basic.min.js is plotly.js 4.1.1's own file of the npm package plotly.js-basic-dist-min
(MIT, static/plotly-LICENSE.txt): scatter and bar, a quarter of the whole library.
"""

from functools import cache
from importlib.resources import files


@cache
def plotly_js() -> str:
    """The bundle, to be put into a script element."""
    return (files("reports") / "static" / "plotly-basic.min.js").read_text(encoding="utf-8")
