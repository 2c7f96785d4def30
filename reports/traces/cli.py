"""The `traces` command with what needs a page: `describe` on the terminal, and as HTML."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from workloads.cli import AsJson, app
from workloads.errors import InputError


@app.command
def describe(
    trace: str,
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    then: Annotated[list[str] | None, Parameter(negative="")] = None,
    format: str | None = None,
    block_tokens: int | None = None,
    columns: str | None = None,
    prefix_scope: Literal["recorded", "system"] = "recorded",
    as_json: AsJson = False,
) -> None:
    """Print a trace's rows, span, rate, lengths, and what was dropped on reading it.

    Parameters
    ----------
    trace
        A file (CSV, JSON or Parquet; plain, gzip or zstd), a folder or archive of conversations, or
        the name of a shipped trace.
    output
        Also write a page, ending in .html: arrivals over time, how lengths go together, sessions,
        reuse, and what the steps of --then left out.
    then
        Describe the trace after a step, as `traces transform` takes it; repeat the option.
    format
        The file's format, where its columns shouldn't decide.
    block_tokens
        Tokens in a prefix block, where the file departs from its format.
    columns
        What the columns of any other file hold: arrival=NAME:UNIT,prompt=NAME,output=NAME with
        the unit iso, s, ms, us or ns; hash_ids=NAME:TOKENS for prefix blocks; session=NAME and
        elapsed=NAME:UNIT for rows that follow each other's answers.
    prefix_scope
        Of conversations whose block ids are their own: as "recorded", or with tools and "system"
        prompt shared by all that have them of the same length.
    as_json
        Print JSON instead of tables.
    """
    from dataclasses import asdict

    from workloads.console import print_json
    from workloads.describe import DEFINITIONS
    from workloads.describe import describe as described
    from workloads.read import read_counted, read_trace
    from workloads.schema import Trace
    from workloads.show import print_description
    from workloads.steps import apply_steps

    if output is not None:
        from reports.build import check_name

        check_name(output)  # a typing slip needn't wait for the trace
    options = {
        "format": format,
        "block_tokens": block_tokens,
        "columns": columns,
        "prefix_scope": prefix_scope,
    }
    whole = None
    if then:
        whole = read_trace(trace, **options)  # type: ignore[arg-type]
        found, reuse = apply_steps(whole, then), None
    else:
        found, reuse = read_counted(trace, **options)  # type: ignore[arg-type, assignment]
    if output is not None:
        from reports.traces.page import write_trace_page

        if not isinstance(found, Trace):
            raise InputError(f"{trace}: has lengths but no arrival times, expected a trace")
        write_trace_page(output, found, reuse, whole, then or ())
    description = described(found, reuse)
    if as_json:
        print_json(asdict(description) | {"definitions": DEFINITIONS})
        return
    print_description(description)
    if output is not None:
        print(output)
