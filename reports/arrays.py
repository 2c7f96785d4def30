"""Figures as strict JSON with every array of numbers once, in single precision.

A pixel is a thousandth of an axis and single precision a ten-millionth of the value; the tables
hold the numbers whole.
"""

import base64
import json
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from workloads.outgoing import in_chart

SMALL = 24
"""Shorter arrays are plain lists: they may hold texts, and take no room."""


class Arrays:
    """The arrays of one page by content. In the figures {"$": n} stands for the n-th."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}

    def figure(self, figure: go.Figure) -> str:
        """The figure's data and layout as JSON that is safe inside a script element."""
        return _safe(self._plain(figure.to_plotly_json()))

    def all(self) -> str:
        """All arrays as base64 of little-endian single floats, in a JSON list."""
        return _safe([base64.b64encode(content).decode("ascii") for content in self._known])

    def _plain(self, part: Any) -> Any:
        if isinstance(part, dict) and "bdata" in part:  # plotly's own form of an array
            values = np.frombuffer(base64.b64decode(part["bdata"]), part["dtype"])
            return self._plain(values)
        if isinstance(part, dict):
            return {key: self._plain(value) for key, value in part.items()}
        if isinstance(part, np.ndarray) and part.dtype.kind in "iuf" and len(part) >= SMALL:
            return {"$": self._number(part)}
        if isinstance(part, np.ndarray):
            return self._plain(part.tolist())
        if isinstance(part, list | tuple):
            return [self._plain(value) for value in part]
        if isinstance(part, str):
            return in_chart(part)
        return part.item() if isinstance(part, np.generic) else part

    def _number(self, values: NDArray[Any]) -> int:
        if not np.isfinite(values).all():
            raise ValueError("a chart's array holds NaN or infinity")
        content = np.ascontiguousarray(values, dtype="<f4").tobytes()
        return self._known.setdefault(content, len(self._known))


def _safe(content: Any) -> str:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c")
