"""A number a cost model rests on, with its unit and where it comes from."""

from typing import NamedTuple


class Constant(NamedTuple):
    """Shown in every report that used it."""

    name: str
    value: float
    unit: str
    source: str
