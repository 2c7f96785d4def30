"""Traces in, requests out: readers of public formats, a seeded generator, transforms."""

from typing import TYPE_CHECKING, Any

from workloads.errors import InputError

if TYPE_CHECKING:
    from workloads.read import Lengths, read_lengths, read_trace
    from workloads.schema import PrefixBlocks, Provenance, Trace

__all__ = [
    "InputError",
    "Lengths",
    "PrefixBlocks",
    "Provenance",
    "Trace",
    "read_lengths",
    "read_trace",
]


def __getattr__(name: str) -> Any:
    # Late, so that `kvtwin --help` doesn't pay for numpy and every reader.
    if name not in __all__:
        raise AttributeError(f"module 'workloads' has no attribute {name!r}")
    from importlib import import_module

    places = (import_module("workloads.read"), import_module("workloads.schema"))
    value = next(getattr(place, name) for place in places if hasattr(place, name))
    globals()[name] = value
    return value
