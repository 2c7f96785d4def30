"""`kvtwin list engines`: presets side by side, each parameter with its source."""

from typing import Annotated

from cyclopts import Parameter

from sim.run.engine_presets import ENGINES, SOURCES, parameters
from workloads.console import console, print_json, sheet


def list_engines(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the engine presets. Values that differ from the default's are marked with *.

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    presets = {name: parameters(engine) for name, engine in ENGINES.items()}
    if json:
        rows = [
            {
                "name": name,
                "description": ENGINES[name].description,
                "parameters": values,
                "differs": [k for k, v in values.items() if v != presets["default"][k]],
            }
            for name, values in presets.items()
        ]
        print_json({"engines": rows, "sources": SOURCES})
        return
    table = sheet("parameter", *presets, "source")
    for name, default in presets["default"].items():
        cells = [
            f"{values[name]}{'' if values[name] == default else ' *'}"
            for values in presets.values()
        ]
        table.add_row(name, *cells, SOURCES[name])
    console().print(table)
