"""`kvtwin profiles convert` and `kvtwin list profiles`: measured kernel times as one file."""

from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(name="profiles", help="Measured kernel times: convert them into a profile.")


@app.command
def convert(
    folder: Path,
    /,
    *,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    tp: int = 1,
    model: str | None = None,
    multiprocessors: int | None = None,
    all_reduce: str | None = None,
    source: str | None = None,
) -> None:
    """Make a profile of a folder of kernel times in LLMServingSim's layout (docs/profiles.md).

    Parameters
    ----------
    folder
        Holds meta.yaml and tp<N>/ with attention.csv, dense.csv, per_sequence.csv, skew.csv.
    output
        The profile to write, named *.parquet; its stem becomes its name.
    tp
        Which degree of tensor parallelism to take.
    model
        Preset or config.json, where meta.yaml names no known model.
    multiprocessors
        Of the device; needed to use skew.csv.
    all_reduce
        Measured sums over GPUs: small=11us+11.5GB/s,switch=640KiB,large=45us+15.9GB/s.
    source
        Where the times come from, instead of what meta.yaml says.
    """
    from sim.cost.convert import read_folder
    from sim.cost.profile import write_profile

    profile = read_folder(
        folder,
        name=output.stem,
        tp=tp,
        model=model,
        multiprocessors=multiprocessors,
        all_reduce=all_reduce,
        source=source,
    )
    write_profile(profile, output)
    times = sum(len(rows) for rows in profile.rows.values())
    print(f"{output}: {times:,} times of {profile.meta['model']} on {profile.meta['gpu']}, tp {tp}")


def list_profiles(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the shipped kernel profiles. Devices without one fall back to the roofline.

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    from sim.cost.profile import profile_meta, shipped_profiles

    rows = [profile_meta(name) for name in shipped_profiles()]
    if json:
        print(dumps(rows, indent=2, allow_nan=False))
        return
    from rich.console import Console
    from rich.table import Column, Table

    name = Column("profile", no_wrap=True)
    table = Table(name, "gpu", "model", "tp", "source", box=None, header_style="bold")
    for row in rows:
        table.add_row(*(str(row[key]) for key in ("name", "gpu", "model", "tp", "source")))
    Console().print(table)
