"""`kvtwin list policies`: every policy with its options, defaults and what it is."""

from dataclasses import fields
from json import dumps
from typing import Annotated

from cyclopts import Parameter

from sim.policy.registry import policies


def list_policies(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the cache policies and their options.

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    rows = [
        {
            "name": name,
            "options": {option.name: option.default for option in fields(kind)},
            "description": (kind.__doc__ or "").split("\n")[0],
        }
        for name, kind in policies().items()
    ]
    if json:
        print(dumps(rows, indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("policy", "options (defaults)", "what it does", box=None, header_style="bold")
    for row in rows:
        options = row["options"]
        assert isinstance(options, dict)
        text = ",".join(f"{key}={value}" for key, value in options.items())
        table.add_row(str(row["name"]), text, str(row["description"]))
    Console().print(table)
