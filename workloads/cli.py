"""The `traces` command: what ships, and making new ones. `describe` is in reports: it draws."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from workloads.console import print_json
from workloads.errors import InputError
from workloads.options import whole_numbers

app = App(name="traces", help="List, describe and generate request traces.", config=whole_numbers)

if TYPE_CHECKING:
    from workloads.schema import Trace

AsJson = Annotated[bool, Parameter(name="--json", negative="")]


@app.command(name="list")
def list_traces(*, as_json: AsJson = False) -> None:
    """List the traces that ship with the package, by the names other commands take.

    Parameters
    ----------
    as_json
        Print JSON instead of a table.
    """
    from workloads.catalog import SHIPPED
    from workloads.show import print_catalog

    if as_json:
        fields = ("name", "format", "licence", "description", "file")
        print_json([{field: getattr(entry, field) for field in fields} for entry in SHIPPED])
    else:
        print_catalog(SHIPPED)


@app.command
def generate(
    *,
    requests: int,
    request_rate: float | None = None,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    seed: int = 0,
    arrivals: str = "poisson",
    prompt: Annotated[str | None, Parameter(name=["--prompt", "--prompt-tokens"])] = None,
    output_tokens: str | None = None,
    lengths: str | None = None,
    workload: str | None = None,
    as_json: AsJson = False,
) -> None:
    """Draw a trace and write it; the same options give the same bytes. `OUT.recipe.json` says how.

    Parameters
    ----------
    requests
        Number of requests.
    request_rate
        Mean requests per second; `inf` sends all at once.
    out
        The file to write: .csv, .jsonl or .parquet.
    seed
        Seed of the generator.
    arrivals
        poisson, gamma:cv=3, bursts:factor=5,share=0.1,length=30, diurnal:swing=0.8,period=86400,
        constant or all-at-once.
    prompt
        Prompt lengths: 1024, uniform:low=1,high=100, lognormal:mean=1000,cv=1.2 (or sigma=1).
        Default: 1024.
    output_tokens
        Output lengths, written as for --prompt. Default: 128.
    lengths
        A trace, or a file of lengths, to draw prompts and outputs from in pairs.
    workload
        chat or coding-agent (sessions, whose turns follow answers: `--requests` and
        `--request-rate` count sessions, the file is .jsonl), retrieval or summarisation.
    as_json
        Print {"trace": path, "requests": rows, "span_s": seconds} instead of a line.
    """
    from workloads.read import read_lengths
    from workloads.synthetic import generate as draw
    from workloads.write import write_recipe, write_trace

    if request_rate is None:
        if arrivals != "all-at-once":
            raise InputError(f"--arrivals {arrivals} needs --request-rate, in requests/s")
        request_rate = math.inf
    if lengths is not None and (prompt is not None or output_tokens is not None):
        raise InputError("--lengths draws both lengths, expected no --prompt or --output-tokens")
    if workload is not None and (prompt, output_tokens, lengths) != (None, None, None):
        raise InputError(
            "--workload draws its own lengths, expected no --prompt, --output-tokens or --lengths"
        )
    try:
        if workload is not None:
            from workloads.made import make_workload

            trace = make_workload(workload, requests, request_rate, arrivals=arrivals, seed=seed)
        else:
            trace = draw(
                requests,
                request_rate,
                arrivals=arrivals,
                prompt=prompt or "1024",
                output=output_tokens or "128",
                lengths=None if lengths is None else read_lengths(lengths),
                seed=seed,
            )
        write_trace(trace, out)
        write_recipe(trace, [], out)
    except MemoryError:
        raise InputError(f"--requests {requests}: more than this machine's memory holds") from None
    _told(trace, out, as_json)
    if not as_json:
        for note in trace.provenance.notes:
            print(f"note: {note}")


@app.command
def transform(
    trace: str,
    /,
    *,
    out: Annotated[Path, Parameter(name=["--out", "-o"])],
    then: Annotated[list[str], Parameter(negative="")],
    as_json: AsJson = False,
) -> None:
    """Change a trace in steps and write it; `OUT.recipe.json` beside it says what was done.

    Parameters
    ----------
    trace
        A file, a folder of conversations, or the name of a shipped trace.
    out
        The file to write: .csv, .jsonl or .parquet.
    then
        A step, done in the order given; repeat the option. first=100, slice=60:120 (seconds),
        thin=0.5 or thin=0.5:SEED, rate=2.5 (requests/s), snapshot=SEED (every session entered at a
        moment of its life), repeat=3, merge=OTHER, stamps (forget who
        waits for whom), max_prompt=N, max_output=N, max_total=N.
    as_json
        Print {"trace": path, "requests": rows, "span_s": seconds} instead of a line.
    """
    from workloads.read import read_trace
    from workloads.steps import apply_steps
    from workloads.write import write_recipe, write_trace

    made = apply_steps(read_trace(trace), then)
    write_trace(made, out)
    write_recipe(made, then, out)
    _told(made, out, as_json)


def _told(trace: "Trace", out: Path, as_json: bool) -> None:
    span_s = float(trace.arrival_s[-1])
    if as_json:
        print_json({"trace": str(out), "requests": len(trace), "span_s": span_s})
    else:
        noun = "request" if len(trace) == 1 else "requests"
        print(f"{out}: {len(trace):,} {noun} over {span_s:,.2f} s")
