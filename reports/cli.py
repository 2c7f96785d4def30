"""`kvtwin report`: run folders in, one HTML file out; figures, CSV and traces where asked for."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from workloads.console import print_json


def report(
    dirs: Annotated[list[Path], Parameter(consume_multiple=True)],
    /,
    *,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    title: str | None = None,
    csv: Path | None = None,
    figures: Path | None = None,
    perfetto: Path | None = None,
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
    csv
        Also write every metric of every run as CSV.
    figures
        Also write each chart as SVG and PDF into this folder; needs Chromium and playwright.
    perfetto
        Also write the runs as a trace for ui.perfetto.dev: steps, requests, queue and memory.
    json
        Print {"report": path, "runs": [names]} instead of the path.
    """
    # Here, so that mounting the command and printing its help need no plotly.
    from reports.build import check_name, write_report
    from reports.export import comparison_csv
    from reports.files import VALIDATION
    from reports.load import load_runs
    from workloads.write import replacing

    if output is not None:
        check_name(output)  # a typing slip needn't wait for the runs to load
    runs = load_runs(dirs)
    judged = next((file for folder in dirs if (file := folder / VALIDATION).is_file()), None)
    written = write_report(runs, output or dirs[0] / "report.html", title, judged)
    others: list[Path] = []
    if csv is not None:
        with replacing(csv) as unfinished:
            unfinished.write_text(comparison_csv(runs), encoding="utf-8")
        others.append(csv)
    if perfetto is not None:
        from reports.perfetto import perfetto as as_trace

        with replacing(perfetto) as unfinished:
            unfinished.write_text(as_trace(runs), encoding="utf-8")
        others.append(perfetto)
    if figures is not None:
        from reports.draw import draw

        others += draw(written, figures)
    if json:
        print_json({"report": str(written), "runs": [run.label for run in runs]})
    else:
        for path in (written, *others):
            print(path)
