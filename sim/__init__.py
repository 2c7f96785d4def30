"""Decide and simulate. `from sim import simulate` is the way in."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.run.simulation import Run, Setup, simulate

__all__ = ["Run", "Setup", "simulate"]


def __getattr__(name: str) -> Any:
    # Late, so that `import sim.model.presets` or `kvtwin --help` don't pay for the whole engine.
    if name in __all__:
        import importlib

        module = importlib.import_module("sim.run.simulation")
        value = getattr(module, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'sim' has no attribute {name!r}")
