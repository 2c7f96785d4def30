"""The page in a real browser: it draws, says nothing on the console and asks nobody anything."""

import io
import json
import re
from pathlib import Path
from typing import Literal, NamedTuple
from unicodedata import normalize

import pytest
from playwright.sync_api import Browser, Page, expect
from pypdf import PdfReader

from kvtwin import report, simulate
from reports.build import write_report
from reports.formats import column
from tests.reports.browsing import Opens, browser, needs_chromium, opens, ready, tab
from tests.reports.synthetic import PAGING, PREALLOCATION, Spec, write_folder

AXE = Path(__file__).parent / "axe" / "axe.min.js"

__all__ = ["browser", "opens", "tab"]  # fixtures

pytestmark = needs_chromium


def folders(tmp_path: Path, *specs: Spec) -> list[Path]:
    return [write_folder(tmp_path / str(i), spec) for i, spec in enumerate(specs)]


class Written(NamedTuple):
    """A page and the runs on it, which tests only read."""

    runs: list[Path]
    file: Path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Written:
    place = tmp_path_factory.mktemp("two")
    runs = folders(place, PREALLOCATION, PAGING)
    return Written(runs, write_report(runs, place / "report.html"))


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Written:
    place = tmp_path_factory.mktemp("one")
    runs = folders(place, PAGING)
    return Written(runs, write_report(runs, place / "report.html"))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of real runs, which has the map of addresses and what fits, too."""
    runs = [
        simulate("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=60, policy=policy)
        for policy in ("growing", "paging+int8")
    ]
    return report(runs, tmp_path_factory.mktemp("real") / "report.html")


# Asked once for all rows: every question to the browser is a message to another process.
ROWS = """rows => rows.map(row => [
  row.dataset.metric, row.querySelector("td.unit").textContent,
  [...row.querySelectorAll("td.n")].map(cell => [cell.textContent, cell.dataset.value]),
])"""


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_two_policies(opens: Opens, two: Written, width: int) -> None:
    specs = (PREALLOCATION, PAGING)
    runs, file = two
    opened = opens(file, width)
    page = opened.page
    ready(page)

    assert opened.messages == []
    assert opened.requests == [file.as_uri()]
    drawn = page.locator(".chart").evaluate_all(
        "all => all.map(chart => [chart.querySelectorAll('.main-svg').length,"
        " chart.querySelectorAll('.xtick text, .xtick').length])"
    )
    assert drawn
    assert all(pictures >= 1 and ticks > 1 for pictures, ticks in drawn)
    assert page.locator("#memory-over-time .fills path").count() > len(specs) * 3
    assert page.locator("#load-over-time .js-line").count() >= len(specs) * 3
    assert page.locator("#memory-shares .point").count() == len(specs) * 6
    assert page.locator("#end-to-end-latency .js-line").count() == len(specs)
    assert page.evaluate("document.documentElement.scrollWidth") == width  # nothing sticks out

    expected = [
        {m["name"]: m for m in json.loads((run / "run.json").read_text())["metrics"]}
        for run in runs
    ]
    rows = page.locator("tr[data-metric]").evaluate_all(ROWS)
    assert len(rows) == len(expected[0])
    for name, unit_text, cells in rows:
        values = [metrics[name]["value"] for metrics in expected]
        family = (
            [name]
            if "_ms_" not in name
            else [n for n in expected[0] if n.startswith(name.split("_ms_")[0] + "_ms_")]
        )
        alike = [metrics[n]["value"] for metrics in expected for n in family]
        unit, texts = column(values, expected[0][name]["unit"], alike)
        assert unit_text == unit
        assert [text for text, _ in cells] == texts
        assert [json.loads(value or "null") for _, value in cells] == values


def test_all_metrics_unfold(opens: Opens, two: Written) -> None:
    page = opens(two.file).page
    row = page.locator('tr[data-metric="ttft_ms_p90"]')
    assert not row.is_visible()
    page.locator("label.more").click()
    assert row.is_visible()


def test_the_header_stays_in_sight(opens: Opens, two: Written) -> None:
    page = opens(two.file).page
    ready(page)
    page.locator('tr[data-metric="e2el_ms_p99"]').evaluate("row => row.scrollIntoView()")
    page.mouse.wheel(0, -150)
    header = page.locator(".comparison thead th").first
    page.wait_for_function(
        "Math.abs(document.querySelector('.comparison thead th').getBoundingClientRect().top) < 1"
    )
    assert header.is_visible()


def test_a_table_that_is_cut_says_so(opens: Opens, one: Written, tmp_path: Path) -> None:
    specs = [Spec(f"paging:block_size={i}", 24, "block") for i in range(6)]
    file = write_report(folders(tmp_path, *specs), tmp_path / "report.html")
    page = opens(file, 800).page
    page.wait_for_selector(".framed.cut")
    assert page.locator(".sideways").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 800
    page.locator(".compared").evaluate("table => table.scrollTo(99999, 0)")
    page.wait_for_selector(".framed:not(.cut)")
    assert page.locator(".sideways").is_visible()  # nothing jumps
    page = opens(one.file, 1400).page
    ready(page)
    assert not page.locator(".sideways").is_visible()


@pytest.mark.parametrize("javascript", [True, False])
def test_without_javascript_charts_say_why(
    browser: Browser, opens: Opens, one: Written, javascript: bool
) -> None:
    if javascript:
        page = opens(one.file).page
    else:
        page = browser.new_page(java_script_enabled=False)
        page.goto(one.file.as_uri())
    sentence = page.locator(".chart noscript p").first
    assert sentence.is_visible() != javascript
    page.locator("#waste summary").click()  # the numbers need no script
    assert page.locator("#waste table td").first.is_visible()


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        (Spec("paging", 4, "block", requests=0), "nothing to serve"),
        (Spec("paging", 4, "block", longest=1), "all requests refused"),
    ],
)
def test_no_service(opens: Opens, tmp_path: Path, spec: Spec, status: str) -> None:
    file = write_report(folders(tmp_path, spec), tmp_path / "report.html")
    opened = opens(file)
    assert opened.page.locator(".verdict .status").text_content() == status
    assert opened.page.locator("#ledger tbody tr").count() == 4
    assert (opened.messages, opened.charts()) == ([], 0)
    assert opened.page.locator(".chart").count() == 0


def test_no_button_sends_a_chart_anywhere(opens: Opens, one: Written) -> None:
    opened = opens(one.file)
    page = opened.page
    ready(page)
    titles = page.locator(".modebar-btn").evaluate_all("all => all.map(b => b.dataset.title)")
    assert titles
    assert not any("loud" in title or "hare" in title for title in titles)


def test_the_mode_bar_saves_vectors_under_the_charts_name(opens: Opens, one: Written) -> None:
    opened = opens(one.file)
    page = opened.page
    page.wait_for_selector("#memory-shares .main-svg")
    page.hover("#memory-shares")
    with page.expect_download() as saved:
        page.locator("#memory-shares .modebar-btn").first.click()
    assert saved.value.suggested_filename == "kvtwin-memory-shares.svg"
    assert "<svg" in Path(saved.value.path()).read_text()


def test_the_keyboard_passes_links_and_tables_but_no_mode_bar(opens: Opens, two: Written) -> None:
    page = opens(two.file).page
    ready(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    for _ in range(60):
        page.keyboard.press("Tab")
        assert "modebar" not in page.evaluate("document.activeElement.className.toString()")


def test_print_keeps_every_row(opens: Opens, two: Written) -> None:
    page = opens(two.file).page
    ready(page)
    page.emulate_media(media="print")
    box = page.locator(".compared")
    hidden = box.evaluate("box => box.scrollHeight - box.clientHeight")
    assert hidden <= 0  # nothing in a scroller is lost on paper
    rows = page.locator("tr[data-metric]")
    assert rows.evaluate_all(
        "all => all.every(row => row.checkVisibility({visibilityProperty: true})"
        " && row.getBoundingClientRect().height > 0)"
    )
    assert page.evaluate("getComputedStyle(document.querySelector('.links')).display") == "none"
    reader = PdfReader(io.BytesIO(page.pdf(landscape=True)))
    # Fonts may set "fi" as one sign.
    whole = " ".join(normalize("NFKC", sheet.extract_text()) for sheet in reader.pages)
    metrics = json.loads((two.runs[0] / "run.json").read_text())["metrics"]
    # A row is its label, unit and two values; definitions have the labels once more.
    numbers = [[text for text, _ in cells] for _, _, cells in rows.evaluate_all(ROWS)]
    assert len(numbers) == len(metrics)
    text = re.sub(r"\s+", " ", whole)
    lost = [
        (metric["label"], cells)
        for metric, cells in zip(sorted_as(page, metrics), numbers, strict=True)
        if not re.search(
            re.escape(metric["label"]) + r"\W[^▸]{0,12}" + in_order(cells),
            text,
        )
    ]
    assert lost == []
    assert len(reader.pages) < 14


def sorted_as(page: Page, metrics: list[dict[str, str]]) -> list[dict[str, str]]:
    """The metrics in the order of the table's rows."""
    known = {metric["name"]: metric for metric in metrics}
    names = page.locator("tr[data-metric]").evaluate_all("all => all.map(r => r.dataset.metric)")
    return [known[name] for name in names]


def in_order(cells: list[str]) -> str:
    """A pattern of these cells one after the other, the best ones marked."""
    return r"\W+".join(re.escape(cell) for cell in cells)


def test_charts_come_when_they_are_near_and_all_in_the_end(browser: Browser, two: Written) -> None:
    """Loading takes less than a second of the page's own CPU time; charts follow."""
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.add_init_script("window.requestIdleCallback = (work) => { window.later = work; }")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(two.file.as_uri())  # until the load event
    taken = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    page.wait_for_selector("#memory-shares .main-svg")
    charts = page.locator(".chart").count()
    at_first = page.locator(".chart:has(.main-svg)").count()
    assert 0 < at_first < charts / 2
    assert taken["TaskDuration"] < 1
    page.locator("#end-to-end-latency").scroll_into_view_if_needed()
    page.wait_for_selector("#end-to-end-latency .main-svg")
    page.evaluate("while (drawn.size < scripts.length) later()")
    assert page.locator(".chart:has(.main-svg)").count() == charts
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_chinese_page(opens: Opens, tmp_path: Path, scheme: Literal["light", "dark"]) -> None:
    """Drawn, silent, offline, no wider than a phone, and with Chinese axes."""
    file = write_report(
        folders(tmp_path, PREALLOCATION, PAGING), tmp_path / "zh.html", language="zh"
    )
    opened = opens(file, 390, scheme)
    page = opened.page
    ready(page)
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    assert (opened.messages, opened.requests) == ([], [file.as_uri()])
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    assert page.locator("#load-over-time .xtitle").text_content() == "自首个到达起的时间（s）"


def test_the_dark_scheme_is_dark_with_readable_axes(opens: Opens, one: Written) -> None:
    page = opens(one.file, scheme="dark").page
    ready(page)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 30)"
    tick = page.locator("#end-to-end-latency .xtick text").first
    assert tick.evaluate("text => getComputedStyle(text).fill") == "rgb(169, 180, 190)"
    page.emulate_media(color_scheme="light")
    expect(tick).to_have_css("fill", "rgb(91, 102, 112)")


def test_thirty_policies_are_rows_that_sort(opens: Opens, tmp_path: Path) -> None:
    specs = [Spec(f"paging:block_size={i}", 10 + i % 7, "block", requests=60) for i in range(30)]
    file = write_report(folders(tmp_path, *specs), tmp_path / "report.html")
    assert file.stat().st_size < 4 * 10**6
    opened = opens(file)
    page = opened.page
    ready(page)
    assert page.locator(".sortable tbody tr").count() == 30
    page.locator('.sortable th[data-metric="e2el_ms_mean"] button').click()
    head = page.locator(".sortable thead th").evaluate_all("all => all.map(h => h.dataset.metric)")
    at = head.index("e2el_ms_mean")
    cells = page.locator(f".sortable tbody tr td:nth-child({at + 1})")
    values = cells.evaluate_all("all => all.map(cell => Number(cell.dataset.value))")
    assert values == sorted(values)
    assert page.evaluate("document.documentElement.scrollWidth") == 1400
    assert opened.messages == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(
    opens: Opens, real: Path, scheme: Literal["light", "dark"]
) -> None:
    page = opens(real, scheme=scheme).page
    ready(page)
    assert page.locator("#address-map .main-svg").count() > 0
    page.evaluate(AXE.read_text(encoding="utf-8"))
    # Every rule is run; of those that hold, one place is told, not each of thousands.
    found = page.evaluate("axe.run({resultTypes: ['violations']})")
    serious = [
        (fault["id"], fault["nodes"][0]["html"][:200])
        for fault in found["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert serious == []
    assert len(found["passes"]) > 20
