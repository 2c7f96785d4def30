"""What `--plugin` does, in every command that takes policies."""

import sys
from collections.abc import Iterable
from pathlib import Path


def load_plugins(files: Iterable[Path] | None) -> None:
    """Load the files' policies; say on stderr, in a line each, which plug-ins bring nothing."""
    from sim.policy.plugins import load_file
    from sim.policy.registry import plugin_notes

    for file in files or ():
        load_file(file)
    for note in plugin_notes():
        print(f"note: {note}", file=sys.stderr)
