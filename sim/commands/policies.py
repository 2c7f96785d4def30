"""`kvtwin list policies`: every policy with its options, defaults and what it is."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sim.commands.plugins import load_plugins
from sim.policy.registry import policies
from sim.policy.spec import axis
from workloads.console import console, print_json, sheet


def list_policies(
    *,
    plugin: Annotated[list[Path] | None, Parameter(negative="")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List the cache policies and their options.

    A placement stands alone or first; modifiers follow it: paging:block_size=16+top_k:k=64+int8.

    Parameters
    ----------
    plugin
        A Python file that defines policies; may be repeated.
    json
        Print JSON instead of a table.
    """
    load_plugins(plugin)
    rows = [
        {
            "name": name,
            "kind": axis(kind),
            "options": {option.name: option.default for option in fields(kind)},
            "description": (kind.__doc__ or "").split("\n")[0],
        }
        for name, kind in policies().items()
    ]
    if json:
        print_json(rows)
        return
    table = sheet("policy", "kind", "options (defaults)", "what it does")
    for row in rows:
        options = row["options"]
        assert isinstance(options, dict)
        text = ", ".join(f"{key}={value}" for key, value in options.items())
        table.add_row(str(row["name"]), str(row["kind"]), text, str(row["description"]))
    console().print(table)
