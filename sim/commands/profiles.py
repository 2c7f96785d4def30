"""`kvtwin profiles convert` and `kvtwin list profiles`: measured kernel times as one file."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from workloads.console import console, print_json, sheet

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
    kernel_overlap: str | None = None,
    kernel_time: str | None = None,
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
        Of the device, to use skew.csv; known for NVIDIA's devices (`kvtwin list devices`).
    all_reduce
        Measured sums over GPUs: small=11us+11.5GB/s,switch=640KiB,large=45us+15.9GB/s, or a
        file.csv with the columns bytes and time_us.
    kernel_overlap
        What kernels timed alone take too long, a layer and step: 38us,source=fitted to my run.
    kernel_time
        Share of their time alone that kernels take in an engine: 0.965,source=fitted to my run.
    source
        Where the times come from, instead of what meta.yaml says.
    """
    from sim.cost.kernels.llmservingsim import read_folder
    from sim.cost.kernels.profile import write_profile

    profile = read_folder(
        folder,
        name=output.stem,
        tp=tp,
        model=model,
        multiprocessors=multiprocessors,
        all_reduce=all_reduce,
        kernel_overlap=kernel_overlap,
        kernel_time=kernel_time,
        source=source,
    )
    write_profile(profile, output)
    times = sum(len(rows) for rows in profile.rows.values())
    print(f"{output}: {times:,} times of {profile.meta['model']} on {profile.meta['gpu']}, tp {tp}")


@app.command(name="import")
def import_tables(
    *,
    gpu: str,
    model: str,
    output: Annotated[Path, Parameter(name=["--output", "-o"])],
    tp: int = 1,
    kv_cache_dtype: str = "auto",
    framework: str = "vllm",
    tables: Path | None = None,
) -> None:
    """Make a profile of NVIDIA's measured tables (pip install 'kvtwin[profiles]').

    Prints decode points of the table beside what the roofline says of them.

    Parameters
    ----------
    gpu
        Device: a100-80gb, h100, h200, b200, l40s or rtx-pro-6000.
    model
        A preset or config.json of a dense model with full attention.
    output
        The profile to write, named *.parquet; its stem becomes its name.
    tp
        GPUs the model is divided over.
    kv_cache_dtype
        auto, bf16 or fp8.
    framework
        Whose kernels: vllm, sglang or trtllm.
    tables
        Folder of the tables. Default: the installed package's.
    """
    from sim.cost.kernels.nvidia import beside_roofline, imported
    from sim.cost.kernels.profile import write_profile
    from sim.hardware import find_device
    from sim.model.presets import find_model

    device, geometry = find_device(gpu), find_model(model)
    profile = imported(
        geometry,
        device,
        name=output.stem,
        tp=tp,
        kv_dtype=kv_cache_dtype,
        framework=framework,
        tables=tables,
    )
    write_profile(profile, output)
    print(f"{output}: {profile.meta['source']}")
    for line in beside_roofline(geometry, device, tp=tp, framework=framework, tables=tables):
        print(line)


def list_profiles(*, json: Annotated[bool, Parameter(negative="")] = False) -> None:
    """List the shipped kernel profiles. Devices without one fall back to the roofline.

    Parameters
    ----------
    json
        Print JSON instead of a table.
    """
    from sim.cost.kernels.profile import profile_meta, shipped_profiles

    rows = [profile_meta(name) for name in shipped_profiles()]
    if json:
        print_json(rows)
        return
    table = sheet("profile", "gpu", "model", "tp", "source")
    for row in rows:
        table.add_row(*(str(row[key]) for key in ("name", "gpu", "model", "tp", "source")))
    console().print(table)
