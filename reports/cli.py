"""`kvtwin report`: run folders in, one HTML file out."""

from json import dumps
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter


def report(
    dirs: Annotated[list[Path], Parameter(consume_multiple=True)],
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    title: str | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Compare runs in one HTML file that opens offline.

    Parameters
    ----------
    dirs
        Run folders, or folders of them, as `kvtwin simulate -o` writes them.
    output
        File to write, ending in .html; `report.html` in the first of the folders if not given.
    title
        Heading of the report; names the trace or traces if not given.
    json
        Print {"report": path, "runs": [names]} instead of the path.
    """
    # Here, so that mounting the command and printing its help need no plotly.
    from reports.build import check_name, write_report
    from reports.files import VALIDATION
    from reports.load import load_runs

    if output is not None:
        check_name(output)  # a typing slip needn't wait for the runs to load
    runs = load_runs(dirs)
    judged = next((file for folder in dirs if (file := folder / VALIDATION).is_file()), None)
    written = write_report(runs, output or dirs[0] / "report.html", title, judged)
    if json:
        print(dumps({"report": str(written), "runs": [run.label for run in runs]}))
    else:
        print(written)
