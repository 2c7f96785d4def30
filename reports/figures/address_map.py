"""Which addresses of the KV memory were held when: holes between buffers are fragmentation.

Only of policies whose buffers are contiguous. Any free block serves a paged request, so where its
blocks are says nothing.
"""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from reports.bands import spans
from reports.formats import GIB, number
from reports.language import tr
from reports.load import Run
from reports.png import as_link
from reports.table import Table
from reports.theme import GAP, axis, figure, panel_domain, panel_title, panels_height

PANEL = 150  # pixels of height a run
COLUMNS = 240  # of pixels, over the time of a run
SCALE = 4  # pixels a cell, so that browsers that smooth pictures keep its edges
HELD = (0x00, 0x72, 0xB2)
ROWS = 8  # of the table, a run


def address_map(runs: Sequence[Run]) -> tuple[go.Figure, Table]:
    """Time to the right, addresses upwards, the darker the more of a stretch is held."""
    fig = figure(panels_height(len(runs), PANEL), margin={"l": 78, "r": 12, "t": GAP, "b": 52})
    rows = []
    for i, run in enumerate(runs):
        assert run.held is not None, "runs without addresses have no map"
        time, name = run.timeline["time_s"], f"y{i + 1}"
        size = run.info.pool.capacity_bytes / GIB
        y_axis = axis("GiB", domain=panel_domain(i, len(runs), PANEL), range=[0, size], nticks=4)
        fig.update_layout({f"yaxis{i + 1}": y_axis})
        panel_title(fig, f"<b>{run.label}</b>", 0, i, len(runs), PANEL)
        found = spans(time, COLUMNS)
        shares = run.held[found.starts] / 255
        fig.add_layout_image(
            source=as_link(_pixels(shares)), xref="x", yref=name, x=float(time[0]), y=size,
            sizex=max(float(time[-1] - time[0]), 1e-9), sizey=size, sizing="stretch",
            layer="below",
        )  # fmt: skip
        fig.add_scatter(  # gives the axes their range, and a place to hover
            x=found.time,
            y=shares.mean(axis=1) * size,
            yaxis=name,
            mode="lines",
            line={"width": 0},
            hovertemplate=tr("%{y:.2f} GiB held at %{x:,.4~g} s") + "<extra></extra>",
        )
        rows += _rows(run.label, time, run.held)
    time_axis = axis(tr("time since the first arrival (s)"), anchor=f"y{len(runs)}")
    fig.update_layout(xaxis=time_axis)
    head = (tr("run"), tr("time (s)"), tr("held (%)"), tr("stretches quite free (%)"))
    return fig, Table(head, tuple(rows))


def _pixels(shares: "np.ndarray") -> "np.ndarray":
    """(samples, stretches) of 0 to 1 as a picture, the first stretch at the bottom."""
    cells = np.zeros((*shares.T.shape, 4), np.uint8)
    cells[..., :3] = HELD
    cells[..., 3] = np.round(255 * shares.T[::-1])
    return cells.repeat(SCALE, axis=0).repeat(SCALE, axis=1)


def _rows(label: str, time: "np.ndarray", held: "np.ndarray") -> list[tuple[str, ...]]:
    found = spans(time, ROWS)
    whole = found.mean(held.mean(axis=1)) / 255 * 100
    free = found.mean((held == 0).mean(axis=1)) * 100
    return [
        (label, number(float(at), "s"), number(float(a), "%"), number(float(b), "%"))
        for at, a, b in zip(found.time, whole, free, strict=True)
    ]
