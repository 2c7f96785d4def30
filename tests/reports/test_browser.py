"""The page in a real browser: it draws, says nothing on the console and asks nobody anything."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from reports.build import write_report
from reports.formats import column
from tests.reports.synthetic import PAGING, PREALLOCATION, Spec, write_folder

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


class Opened:
    """A page with what it logged and what it asked the network for."""

    def __init__(self, browser: Browser, file: Path, width: int = 1400) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": width, "height": 900})
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(file.as_uri())

    def charts(self) -> int:
        return self.page.locator(".chart .main-svg").count()


def folders(tmp_path: Path, *specs: Spec) -> list[Path]:
    return [write_folder(tmp_path / str(i), spec) for i, spec in enumerate(specs)]


@pytest.mark.parametrize("width", [1400, 800])
def test_two_policies(browser: Browser, tmp_path: Path, width: int) -> None:
    specs = (PREALLOCATION, PAGING)
    runs = folders(tmp_path, *specs)
    file = write_report(runs, tmp_path / "report.html")
    opened = Opened(browser, file, width)
    page = opened.page
    page.wait_for_selector("#end-to-end-latency .main-svg")

    assert opened.messages == []
    assert opened.requests == [file.as_uri()]
    for chart in page.locator(".chart").all():
        assert chart.locator(".main-svg").count() >= 1
        assert chart.locator(".xtick text, .xtick").count() > 1
    assert page.locator("#memory-over-time .fills path").count() > len(specs) * 3
    assert page.locator("#memory-shares .point").count() == len(specs) * 6
    assert page.locator("#end-to-end-latency .js-line").count() == len(specs)
    assert page.evaluate("document.documentElement.scrollWidth") == width  # nothing sticks out

    expected = [
        {m["name"]: m for m in json.loads((run / "run.json").read_text())["metrics"]}
        for run in runs
    ]
    rows = page.locator("tr[data-metric]").all()
    assert len(rows) == len(expected[0])
    for row in rows:
        name = row.get_attribute("data-metric")
        cells = row.locator("td.n").all()
        assert name is not None
        values = [metrics[name]["value"] for metrics in expected]
        unit, texts = column(values, expected[0][name]["unit"])
        assert row.locator("td.unit").text_content() == unit
        assert [cell.text_content() for cell in cells] == texts
        shown = [json.loads(cell.get_attribute("data-value") or "null") for cell in cells]
        assert shown == values
    page.close()


def test_all_metrics_unfold(browser: Browser, tmp_path: Path) -> None:
    file = write_report(folders(tmp_path, PREALLOCATION, PAGING), tmp_path / "report.html")
    page = Opened(browser, file).page
    row = page.locator('tr[data-metric="ttft_ms_p90"]')
    assert not row.is_visible()
    page.locator("label.more").click()
    assert row.is_visible()
    page.close()


def test_the_header_stays_in_sight(browser: Browser, tmp_path: Path) -> None:
    file = write_report(folders(tmp_path, PREALLOCATION, PAGING), tmp_path / "report.html")
    page = Opened(browser, file).page
    page.wait_for_selector("#end-to-end-latency .main-svg")
    page.locator('tr[data-metric="e2el_ms_p99"]').evaluate("row => row.scrollIntoView()")
    page.mouse.wheel(0, -150)
    header = page.locator(".comparison thead th").first
    page.wait_for_function(
        "Math.abs(document.querySelector('.comparison thead th').getBoundingClientRect().top) < 1"
    )
    assert header.is_visible()
    page.close()


def test_a_table_that_is_cut_says_so(browser: Browser, tmp_path: Path) -> None:
    specs = [Spec(f"paging:block_size={i}", 24, "block") for i in range(6)]
    file = write_report(folders(tmp_path, *specs), tmp_path / "report.html")
    page = Opened(browser, file, 800).page
    page.wait_for_selector(".framed.cut")
    assert page.locator(".sideways").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 800
    page.locator(".compared").evaluate("table => table.scrollTo(99999, 0)")
    page.wait_for_selector(".framed:not(.cut)")
    assert page.locator(".sideways").is_visible()  # nothing jumps
    page.close()
    page = Opened(browser, write_report(folders(tmp_path / "b", PAGING), file), 1400).page
    page.wait_for_selector("#end-to-end-latency .main-svg")
    assert not page.locator(".sideways").is_visible()
    page.close()


@pytest.mark.parametrize("javascript", [True, False])
def test_without_javascript_charts_say_why(
    browser: Browser, tmp_path: Path, javascript: bool
) -> None:
    file = write_report(folders(tmp_path, PAGING), tmp_path / "report.html")
    page = browser.new_page(java_script_enabled=javascript)
    page.goto(file.as_uri())
    sentence = page.locator(".chart noscript p").first
    assert sentence.is_visible() != javascript
    page.close()


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (Spec("paging", 4, "block", requests=0), "nothing to serve"),
        (Spec("paging", 4, "block", longest=1), "all requests refused"),
    ],
)
def test_no_service(browser: Browser, tmp_path: Path, spec: Spec, status: str) -> None:
    file = write_report(folders(tmp_path, spec), tmp_path / "report.html")
    opened = Opened(browser, file)
    assert opened.page.locator(".verdict .status").text_content() == status
    assert opened.page.locator("#ledger tbody tr").count() == 4
    assert (opened.messages, opened.charts()) == ([], 0)
    assert opened.page.locator(".chart").count() == 0
    opened.page.close()
