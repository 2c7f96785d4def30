"""A place to write synthetic runs to."""

from pathlib import Path
from typing import Any

import pytest

from tests.reports.synthetic import Spec, Write, write_folder


@pytest.fixture
def write_run(tmp_path: Path) -> Write:
    """Writes the run of a spec below the test's folder, and returns its folder."""

    def write(spec: Spec, parent: str = "out", **changes: Any) -> Path:
        slug = spec.name.replace(":", "-").replace("=", "-")
        return write_folder(tmp_path / parent / slug, spec, changes)

    return write
