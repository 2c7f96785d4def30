"""What `--plugin` does, in every command that takes policies."""

import sys
from collections.abc import Iterable
from pathlib import Path


def load_plugins(files: Iterable[Path] | None, costs: bool = False) -> None:
    """Load the files' policies; say on stderr, in a line each, which plug-ins bring nothing.

    Those of cost models too where they are asked for.
    """
    from sim.policy.plugins import load_file, told
    from sim.policy.registry import plugin_notes

    for file in files or ():
        load_file(file)
    notes = plugin_notes()
    if costs:
        from sim.run.costs import cost_notes

        notes += cost_notes()
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    told.update(notes)
