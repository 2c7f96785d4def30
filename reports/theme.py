"""How everything looks: one colour a memory use, one colour and dash a policy, one quiet layout.

Memory uses take the Okabe-Ito set (blue holds tokens, orange and red are waste); policies take
Paul Tol's muted set, its pale ones darkened to 3:1 on white. Both stay apart under the common
colour blindnesses, and dashes repeat the distinction for print.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Use(NamedTuple):
    """A use of the KV budget as readers see it."""

    label: str
    color: str
    text: str  # the colour of text upon it
    meaning: str


USES = {
    "live": Use("live", "#0072B2", "#FFFFFF", "KV of tokens written"),
    "reserved": Use("reserved", "#7CC4EC", "#16202B", "held for tokens still to come"),
    "internal": Use("internal", "#E69F00", "#16202B", "held and never to be used"),
    "external": Use("external", "#C8461E", "#FFFFFF", "unheld, in holes too small to serve"),
    "metadata": Use("metadata", "#6B7078", "#FFFFFF", "scales, tables, landmarks"),
    "free": Use("free", "#EDEFF1", "#4A5560", "unheld, ready to serve"),
}
SHOWN_USES = {
    **{name: use for name, use in USES.items() if name != "free"},
    "cached": Use("cached", "#B9DDB0", "#16202B", "unheld, with a prefix that may be found again"),
    "free": USES["free"],
}
"""As charts have them: what prefixes fill apart from what is empty."""

WASTE = ("reserved", "internal", "external")
"""Uses that hold no token and that no other request can have."""

INK, MUTED, RULE, PAPER = "#16202A", "#5B6670", "#DDE1E5", "#FFFFFF"
ARRIVED, WAITING = "#5B6670", "#C8461E"
CLEAR = "rgba(0,0,0,0)"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'

_COLORS = (
    "#332288", "#CC6677", "#117733", "#4477BB", "#807A1F", "#AA4499", "#2A8576", "#882255",
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


def figure(height: int, **layout: Any) -> "go.Figure":
    """An empty figure in the house style. Axes are added with `axis`."""
    import plotly.graph_objects as go  # late: a terminal needs our words for uses alone

    return go.Figure(
        layout={
            "template": go.layout.Template(),  # plotly's default one is 7 kB a figure
            "height": height,
            "font": {"family": FONT, "size": 13, "color": INK},
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
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
        "tickformat": ",~f",
        **options,
    }


def category_axis() -> dict[str, Any]:
    """The axis of bars: run labels, the first on top."""
    return {
        "autorange": "reversed",
        "automargin": True,
        "tickfont": {"size": 13, "color": INK},
        "ticklabelstandoff": 8,
    }


# Small multiples: panels one below the other, a title above each. Plotly counts in shares of the
# inner height and from the bottom, people in pixels and from the top.
GAP = 30  # pixels between panels, for a title
_FOOT = 52  # below the last one, for the time axis


def panels_height(panels: int, panel: int) -> int:
    """Pixels of a figure with so many panels of this height."""
    return panels * (panel + GAP) + _FOOT


def panel_domain(position: int, panels: int, panel: int) -> list[float]:
    """The panel's span of the inner height."""
    inner = panels * (panel + GAP) - GAP
    upper = 1 - position * (panel + GAP) / inner
    return [max(0.0, upper - panel / inner), upper]


def panel_title(
    fig: "go.Figure", text: str, x: float, position: int, panels: int, panel: int
) -> None:
    """Text above the upper left corner of a panel that begins at `x` (share of the width)."""
    upper = panel_domain(position, panels, panel)[1]
    fig.add_annotation(
        text=text, font={"size": 12, "color": INK}, showarrow=False, yshift=3,
        xref="paper", yref="paper", x=x, y=upper, xanchor="left", yanchor="bottom",
    )  # fmt: skip
