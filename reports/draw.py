"""Figures of a page as SVG and PDF files, drawn by a browser: what the page shows, as vectors.

plotly draws in JavaScript, so a Chromium does it here, without a network.
"""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from workloads.errors import InputError

if TYPE_CHECKING:
    from playwright.sync_api import Page

WIDTH = 900  # pixels
NEEDED = (
    "--figures: needs Chromium and playwright; expected pip install playwright, and chromium on "
    "the PATH or its path in the environment's CHROMIUM"
)
# plotly names clip paths at random; a page that repeats itself must not.
REPEATABLE = "let seed = 1; Math.random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;"


def draw(page: Path, folder: Path) -> list[Path]:
    """Write <chart>.svg and <chart>.pdf for each chart of the HTML file; returns their paths.

    The same page gives the same bytes. Raises InputError where no browser is found.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with opened(page) as shown:
        shown.evaluate("drawAll(false)")
        sheet = shown.context.new_page()  # one for all: opening a page takes a second of CPU
        for id in shown.evaluate("[...document.querySelectorAll('.chart')].map(c => c.id)"):
            svg = shown.evaluate(
                "async ([id, width]) => { const c = document.getElementById(id);"
                " const uri = await Plotly.toImage(c, {format: 'svg', width,"
                " height: c._fullLayout.height});"
                " return decodeURIComponent(uri.slice(uri.indexOf(',') + 1)); }",
                [id, WIDTH],
            )
            place = folder / f"{id}.svg"
            place.write_text(svg, encoding="utf-8")
            written += [place, _pdf(sheet, svg, folder / f"{id}.pdf")]
    return written


@contextmanager
def opened(file: Path, scheme: Literal["light", "dark"] = "light") -> Iterator["Page"]:
    """The page in a browser without a network. Raises InputError where no browser is found."""
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise InputError(NEEDED) from None
    found = os.environ.get("CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))), None
    )
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(
                executable_path=found, args=["--headless", "--no-sandbox", "--disable-gpu"]
            )
        except Error:
            raise InputError(NEEDED) from None
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        context.route(re.compile("^https?:"), lambda route: route.abort())
        page = context.new_page()
        page.add_init_script(REPEATABLE)
        try:
            page.goto(file.resolve().as_uri())
            yield page
        except Error as error:
            said = str(error).partition("\n")[0]
            raise InputError(f"--figures: the browser couldn't draw: {said}") from None
        browser.close()


def _pdf(sheet: "Page", svg: str, place: Path) -> Path:
    """The SVG alone on the sheet, which takes its size."""
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    width, height = (size[1], size[2]) if size else (str(WIDTH), "600")
    sheet.set_content(
        f"<style>@page{{size:{width}px {height}px;margin:0}}body{{margin:0}}svg{{display:block}}"
        f"</style>{svg}"
    )
    content = sheet.pdf(width=f"{width}px", height=f"{height}px", print_background=True)
    # The time of making is not part of a figure.
    place.write_bytes(
        re.sub(rb"/(Creation|Mod)Date \(D:\d{14}", rb"/\1Date (D:20000101000000", content)
    )
    return place
