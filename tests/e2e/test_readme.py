"""What the README shows runs as written there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sim.cli import app

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_example(tmp_path: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (tmp_path / "mine.html").exists()
    assert "TTFT p99" in result.stdout


def commands() -> list[str]:
    blocks = "".join(re.findall(r"```\n(.*?)```", README, flags=re.DOTALL)).replace("\\\n", " ")
    return [line.split("#")[0].strip() for line in blocks.splitlines() if line.startswith("kvtwin")]


@pytest.mark.parametrize("command", commands())
def test_the_commands_parse(command: str) -> None:
    app.parse_args(command.split()[1:], exit_on_error=False, print_error=False)
