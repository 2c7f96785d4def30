"""How everything looks: one colour a memory use, one colour and dash a policy, one quiet layout.

Memory uses take the Okabe-Ito set (blue holds tokens, orange and red are waste); policies take
Paul Tol's muted set. Both stay apart under the common colour blindnesses, and dashes repeat the
distinction for print.
"""

from typing import Any, NamedTuple

import plotly.graph_objects as go


class Use(NamedTuple):
    """A use of the KV budget as readers see it."""

    label: str
    color: str
    text: str  # the colour of text upon it
    meaning: str


USES = {
    "live": Use("live", "#0072B2", "#FFFFFF", "KV of tokens written"),
    "reserved": Use("reserved", "#7CC4EC", "#16202A", "held for tokens still to come"),
    "internal": Use("internal", "#E69F00", "#16202A", "held and never to be used"),
    "external": Use("external", "#C8461E", "#FFFFFF", "unheld, in holes too small to serve"),
    "metadata": Use("metadata", "#7A7F87", "#FFFFFF", "scales, tables, landmarks"),
    "free": Use("free", "#EDEFF1", "#4A5560", "unheld, ready to serve"),
}
WASTE = ("reserved", "internal", "external")
"""Uses that hold no token and that no other request can have."""

INK, MUTED, RULE, PAPER = "#16202A", "#5B6670", "#DDE1E5", "#FFFFFF"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

_COLORS = (
    "#332288", "#CC6677", "#117733", "#88AADD", "#999933", "#AA4499", "#44AA99", "#882255",
    "#6F6F6F",
)  # fmt: skip
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
SVG_DASHES = {
    "solid": "none",
    "dash": "7 4",
    "dot": "2 3",
    "dashdot": "7 3 2 3",
    "longdash": "12 4",
}


class Stroke(NamedTuple):
    color: str
    dash: str


def stroke(position: int) -> Stroke:
    """The line of the run at this position; pairs repeat only after 45 runs."""
    return Stroke(_COLORS[position % len(_COLORS)], _DASHES[position % len(_DASHES)])


def figure(height: int, **layout: Any) -> go.Figure:
    """An empty figure in the house style. Axes are added with `axis`."""
    return go.Figure(
        layout={
            "template": go.layout.Template(),  # plotly's default one is 7 kB a figure
            "height": height,
            "font": {"family": FONT, "size": 13, "color": INK},
            "paper_bgcolor": PAPER,
            "plot_bgcolor": PAPER,
            "margin": {"l": 64, "r": 20, "t": 12, "b": 48},
            "showlegend": False,
            "hoverlabel": {"bgcolor": PAPER, "bordercolor": RULE, "font": {"color": INK}},
            **layout,
        }
    )


def axis(title: str, **options: Any) -> dict[str, Any]:
    """An axis whose title names its unit."""
    return {
        "title": {"text": title, "font": {"size": 12, "color": MUTED}, "standoff": 8},
        "gridcolor": "#EEF0F2",
        "linecolor": RULE,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": RULE,
        "tickfont": {"size": 12, "color": MUTED},
        **options,
    }
