"""The page of `kvtwin size -o`: where memory goes, and requests at once against their length."""

import json
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from reports.assets import plotly_js
from sim.memory.capacity import Curve
from sim.memory.ledger import Ledger

DASHES = ("solid", "dash", "dot", "dashdot")


def write_page(
    path: Path, ledger: Ledger, curves: list[Curve], binds: str, buys: list[tuple[str, int]]
) -> None:
    """Write one HTML file that needs nothing else."""
    environment = Environment(
        loader=PackageLoader("reports"), autoescape=True, undefined=StrictUndefined
    )
    model, device = ledger.model, ledger.device
    gpus = f"{ledger.tp} × {device.name}" if ledger.tp > 1 else device.name
    data = [
        {
            "x": [tokens for tokens, _ in one.points],
            "y": [requests for _, requests in one.points],
            "name": one.label,
            "mode": "lines+markers",
            "line": {"dash": DASHES[number % len(DASHES)]},
        }
        for number, one in enumerate(curves)
    ]
    contexts = [tokens for tokens, _ in curves[0].points]
    ticks = {"tickvals": contexts, "ticktext": [f"{tokens:,}" for tokens in contexts]}
    layout = {
        "xaxis": {"type": "log", "title": {"text": "context, tokens"}, **ticks},
        "yaxis": {"type": "log", "title": {"text": "requests at once"}, "dtick": 1},
        "legend": {"orientation": "h"},
        "margin": {"t": 20},
    }
    page = environment.get_template("size.html.j2").render(
        title=f"{model.name} on {gpus}",
        formula=model.formula(ledger.kv, ledger.tp),
        notes=model.notes,
        curves=curves,
        contexts=contexts,
        rate=model.kv_growth_bytes(ledger.kv, ledger.tp),
        constant=model.kv_window_bytes(ledger.kv, ledger.tp) + model.state_bytes(ledger.tp),
        binds=binds,
        buys=buys,
        lines=ledger.lines,
        plotly_js=Markup(plotly_js()),
        data=_script(data),
        layout=_script(layout),
    )
    path.write_text(page, encoding="utf-8")


def _script(value: object) -> Markup:
    """JSON that can stand in a script element."""
    return Markup(json.dumps(value, allow_nan=False).replace("<", "\\u003c"))
