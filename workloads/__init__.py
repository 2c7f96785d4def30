"""Traces in, requests out: readers of public formats, a seeded generator, transforms."""

from workloads.errors import InputError
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
