"""The front door: `from kvtwin import simulate, Paging, Int8`.

What is named here is loaded when it is asked for, so that one thing doesn't cost all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvtwin.front import Compared, Sized, check_policy, compare_run, report, size
    from kvtwin.many import Answer, search, sweep
    from sim.policy.chunked import Chunked
    from sim.policy.growing import Growing
    from sim.policy.paging import Paging
    from sim.policy.preallocation import Preallocation
    from sim.policy.prefix import Prefix
    from sim.policy.sliding_window import SlidingWindow
    from sim.policy.storage import Fp8, Int4, Int8
    from sim.policy.top_k import TopK
    from sim.policy.virtual import Virtual
    from sim.run.options import RunOptions
    from sim.run.simulation import Run, simulate
    from workloads import read_trace
    from workloads.errors import InputError
    from workloads.schema import Trace

__all__ = [
    "Answer",
    "Chunked",
    "Compared",
    "Fp8",
    "Growing",
    "InputError",
    "Int4",
    "Int8",
    "Paging",
    "Preallocation",
    "Prefix",
    "Run",
    "RunOptions",
    "Sized",
    "SlidingWindow",
    "TopK",
    "Trace",
    "Virtual",
    "check_policy",
    "compare_run",
    "read_trace",
    "report",
    "search",
    "simulate",
    "size",
    "sweep",
]

_HOMES = {
    "kvtwin.front": ("Compared", "Sized", "check_policy", "compare_run", "report", "size"),
    "kvtwin.many": ("Answer", "search", "sweep"),
    "sim.policy.chunked": ("Chunked",),
    "sim.policy.growing": ("Growing",),
    "sim.policy.paging": ("Paging",),
    "sim.policy.preallocation": ("Preallocation",),
    "sim.policy.prefix": ("Prefix",),
    "sim.policy.sliding_window": ("SlidingWindow",),
    "sim.policy.storage": ("Fp8", "Int4", "Int8"),
    "sim.policy.top_k": ("TopK",),
    "sim.policy.virtual": ("Virtual",),
    "sim.run.options": ("RunOptions",),
    "sim.run.simulation": ("Run", "simulate"),
    "workloads": ("read_trace",),
    "workloads.errors": ("InputError",),
    "workloads.schema": ("Trace",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kvtwin' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return __all__
