"""The pictures in docs/, of the demo's report and of a comparison with a real run.

`make screenshots` simulates both first. Needs Chromium and playwright.
"""

import sys
from pathlib import Path
from typing import Literal

from playwright.sync_api import ViewportSize

from reports.build import write_report
from reports.draw import opened
from reports.files import VALIDATION

DOCS = Path("docs")
SIZE: ViewportSize = {"width": 1440, "height": 900}


def main(demo: Path, compared: Path) -> None:
    """Pages of these run folders, at the widths and in the schemes that tests hold right."""
    pages = {
        "report": write_report([demo], demo / "en.html", language="en"),
        "report-zh": write_report([demo], demo / "zh.html", language="zh"),
        "agreement": write_report([compared], compared / "en.html",
                                  validation=compared / VALIDATION, language="en"),
    }  # fmt: skip
    shots: list[tuple[str, str, ViewportSize, Literal["light", "dark"]]] = [
        ("report", "report", SIZE, "light"),
        ("report", "report-dark", SIZE, "dark"),
        ("report", "report-1024", {"width": 1024, "height": 900}, "light"),
        ("report", "report-390", {"width": 390, "height": 844}, "light"),
        ("report-zh", "report-zh", SIZE, "light"),
        ("agreement", "agreement", SIZE, "light"),
    ]
    for page, name, size, scheme in shots:
        with opened(pages[page], scheme) as shown:
            shown.set_viewport_size(size)
            shown.evaluate("drawAll(scheme.matches)")
            shown.screenshot(path=DOCS / f"{name}.png")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
