"""What is installed, and one clear line where the executor's own dependencies are missing."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from workloads.errors import InputError


def require_torch() -> None:
    """Raises InputError where torch isn't installed."""
    if find_spec("torch") is None:
        raise InputError(
            "torch is not installed, and this command runs on it; "
            "expected: pip install 'kvtwin[executor]'"
        )


def version_of(package: str) -> str:
    """Its version; a source tree on the path has none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
