"""One clear line where the executor's own dependencies are missing."""

from importlib.util import find_spec

from workloads.errors import InputError


def require_torch() -> None:
    """Raises InputError where torch isn't installed."""
    if find_spec("torch") is None:
        raise InputError(
            "torch is not installed, and this command runs on it; "
            "expected: pip install 'kvtwin[executor]'"
        )
