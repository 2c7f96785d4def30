"""A hundred hostile texts through the exports, the other pages and a terminal.

`make test` opens a few of each kind in the browser, `make fuzz` all of them.
"""

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pypdf import PdfReader

from reports.build import write_report
from reports.export import comparison_csv
from reports.language import language
from reports.load import Run, load_runs
from reports.perfetto import perfetto
from tests.fuzz.mutate import CASES
from tests.fuzz.test_hostile import CORES, ROOT, TEXTS, with_texts
from tests.made_up import write_model
from tests.reports.browsing import Opened, Opens, browser, needs_chromium, opens, settle, tab
from tests.reports.synthetic import Spec, write_folder

__all__ = ["browser", "opens", "tab"]  # fixtures

RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
SOME = TEXTS if CASES >= 100 else [TEXTS[5 * core] for core in (0, 2, 4, 11)]


def as_name(text: str) -> str:
    """The text as a file may be called."""
    return text.replace("/", "\u2215")


def named(folder: Path, texts: list[str], **more: Any) -> list[Path]:
    """Run folders, each of which has one of the texts for its name."""
    made = []
    for number, text in enumerate(texts):
        run = write_folder(folder / str(number), Spec("p", 24, "block", requests=10, samples=12))
        content = json.loads((run / "run.json").read_text()) | {"name": text, **more}
        (run / "run.json").write_text(json.dumps(content))
        made.append(run)
    return made


def harmless(opened: Opened) -> None:
    """No script ran, no link leads out, nobody was asked for anything."""
    settle(opened.page)
    assert opened.page.evaluate("window.hit") is None
    links = opened.page.evaluate(
        "[...document.querySelectorAll('a')].map(a => a.getAttribute('href')"
        " || a.getAttribute('xlink:href') || '')"
    )
    own = ("#", "data:text/csv", "data:image/")
    assert [link for link in links if link and not link.startswith(own)] == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []


HIT = '<img src="x" onerror="window.hit = 1">'


@needs_chromium
@pytest.mark.parametrize(
    "body",
    [
        HIT,
        f"<p></p><script>function drawAll() {{ document.body.innerHTML = `{HIT}` }}</script>",
        "<svg onload='window.hit = 1'></svg>",
        "<a href='https://evil.example/'>here</a>",
    ],
)
@pytest.mark.parametrize("policy", ["", "default-src 'none'; script-src 'unsafe-inline'"])
def test_what_is_not_harmless_is_found(
    opens: Opens, tmp_path: Path, body: str, policy: str
) -> None:
    """At once, in a handler of an image that isn't there, when charts are drawn, or as a link."""
    page = tmp_path / "page.html"
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else ""
    page.write_text(f"<!doctype html><head>{head}</head><body>{body}</body>", encoding="utf-8")
    with pytest.raises(AssertionError):
        harmless(opens(page))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    return load_runs(named(tmp_path_factory.mktemp("named"), TEXTS))


def test_csv(runs: list[Run]) -> None:
    """A row a metric, a column a run; no cell is a formula, none holds a control character."""
    text = comparison_csv(runs)
    rows = list(csv.reader(io.StringIO(text)))
    assert {len(row) for row in rows} == {3 + len(TEXTS)}
    assert not RAW.search(text)
    number = re.compile(r"-?\d+(\.\d+)?(e[-+]\d+)?")
    cells = [cell for row in rows for cell in row if not number.fullmatch(cell)]
    assert [cell for cell in cells if cell.startswith(("=", "+", "-", "@"))] == []


def test_csv_names_of_metrics(tmp_path: Path) -> None:
    metric = {"name": "=1+1", "label": "+1", "unit": "@x", "formula": "", "value": 1.5}
    (run,) = load_runs(named(tmp_path, ["p"], metrics=[metric]))
    assert comparison_csv([run]).splitlines()[-1] == "'=1+1,'+1,'@x,1.5"


def test_perfetto(runs: list[Run]) -> None:
    text = perfetto(runs)
    assert not RAW.search(text)
    events = json.loads(text)["traceEvents"]
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert len(names) == len(TEXTS)


def does_nothing(paper: Path) -> None:
    """No page of the PDF has a link or a form, nothing in it runs or opens, no text is raw."""
    read = PdfReader(paper)
    for page in read.pages:
        assert "/Annots" not in page
        assert not RAW.search(page.extract_text())
    acting = {"/JS", "/JavaScript", "/URI", "/Launch", "/OpenAction", "/AA", "/EmbeddedFiles"}
    size = read.trailer["/Size"]
    assert isinstance(size, int)
    for number in range(1, size):
        found = read.get_object(number)
        assert not (isinstance(found, dict) and acting & found.keys()), (paper, found)


@needs_chromium
def test_figures(opens: Opens, tmp_path: Path) -> None:
    """Every chart as SVG, opened by itself, and as PDF, looked into."""
    for first in range(0, len(SOME), 7):
        place = tmp_path / str(first)
        named(place / "runs", SOME[first : first + 7])
        in_terminal(place, [["report", str(place / "runs"), "--figures", str(place / "figures")]])
        vectors = sorted((place / "figures").glob("*.svg"))
        assert vectors
        for path in vectors:
            text = path.read_text(encoding="utf-8")
            assert not RAW.search(text)
            for element in ElementTree.fromstring(text).iter():
                assert element.tag.rpartition("}")[2] not in ("script", "foreignObject", "a")
                for name, value in element.attrib.items():
                    assert not name.startswith("on")
                    assert not name.endswith("href") or value.startswith(("#", "data:image/"))
        papers = sorted((place / "figures").glob("*.pdf"))
        assert [paper.stem for paper in papers] == [vector.stem for vector in vectors]
        for paper in papers:
            does_nothing(paper)
        for path in vectors:
            harmless(opens(path))


@needs_chromium
def test_pages_in_chinese(opens: Opens, tmp_path: Path) -> None:
    """Everywhere where a file brings a text, and a validation beside the runs."""
    for first in range(0, len(SOME), 5):
        texts = [(SOME + TEXTS)[first + i] for i in range(5)]
        folder = write_folder(tmp_path / str(first), Spec("p", 24, "block", requests=10))
        file = folder / "run.json"
        file.write_text(json.dumps(with_texts(json.loads(file.read_text()), texts)))
        names = ("policy", "name", "label", "unit")
        numbers = dict.fromkeys(("predicted", "measured", "error_percent"), 1.0)
        others = {"spread_percent": 1.0, "tolerance_percent": 2.0, "passed": True}
        row = dict(zip(names, texts, strict=False)) | numbers | others
        judged = {"schema_version": 1, "passed": True, "repeats": 1, "rows": [row],
                  "machine": {texts[0]: texts[4]}}  # fmt: skip
        (folder / "validation.json").write_text(json.dumps(judged))
        page = write_report(
            [folder], folder / "report.html", texts[1], folder / "validation.json", language("zh")
        )
        assert not RAW.search(page.read_text(encoding="utf-8"))
        harmless(opens(page))


SCRIPT = """
import json, sys
from sim import cli
for arguments in json.load(open(sys.argv[1])):
    sys.argv = ['kvtwin', *arguments]
    try:
        cli.main()
    except SystemExit as error:
        if error.code:
            print('CODE', error.code)
"""


def in_terminal(folder: Path, asked: list[list[str]]) -> str:
    """What a terminal is sent by these commands, one after another in one process."""
    (folder / "asked.json").write_text(json.dumps(asked))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder / "asked.json")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "200"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    sent = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:  # Linux's way of saying that nobody writes to it any more
            break
        if not part:
            break
        sent += part
    os.close(ours)
    assert process.wait() == 0, sent[-3000:].decode("utf-8", "replace")
    return sent.decode("utf-8", "strict")


STYLE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\??[0-9;]*[KAhl]")
"""What rich itself sends: colours, and a progress line's erasing, moving up and hiding."""


def obeyed_by_nobody(sent: str) -> None:
    """Every command went well, and a terminal was sent nothing to obey but rich's own."""
    assert "Traceback" not in sent, sent[-3000:]
    assert "CODE" not in sent, sent[sent.index("CODE") - 500 :][:600]
    for core in CORES:
        if RAW.search(core):
            assert core not in sent
    left = STYLE.sub("", sent).replace("\r\r", "\r")
    assert not RAW.search(left.replace("\r\n", "\n").replace("\r", "")), RAW.search(left)


def test_a_terminal(tmp_path: Path, runs: list[Run]) -> None:
    """Traces, models and runs of such names, described, sized, simulated and shown."""
    asked = []
    for number, text in enumerate(TEXTS):
        trace = tmp_path / f"{as_name(text)}.csv"
        trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n")
        asked.append(["traces", "describe", str(trace)])
        if text in SOME:
            model = write_model(tmp_path / "models" / as_name(text), source=text)
            asked.append(["size", "--model", str(model.parent), "--gpu", "a100-40gb",
                          "--context=1000"])  # fmt: skip
            asked.append(["show", str(runs[number].folder)])
            asked.append(["simulate", str(trace), "--model", str(model), "--gpu", "a100-40gb",
                          "--no-report", "-o", str(tmp_path / "out")])  # fmt: skip
    obeyed_by_nobody(in_terminal(tmp_path, asked))


@needs_chromium
def test_the_pages_of_a_size_and_a_trace(opens: Opens, tmp_path: Path) -> None:
    asked, pages = [], []
    for number, text in enumerate(SOME):
        model = write_model(tmp_path / "models" / as_name(text), source=text)
        trace = tmp_path / f"{as_name(text)}.csv"
        trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,6\n")
        size, of_trace = tmp_path / f"size-{number}.html", tmp_path / f"trace-{number}.html"
        asked += [
            ["size", "--model", str(model.parent), "--gpu", "a100-40gb", "--context=1000",
             "-o", str(size)],
            ["traces", "describe", str(trace), "-o", str(of_trace)],
        ]  # fmt: skip
        pages += [size, of_trace]
    assert "CODE" not in in_terminal(tmp_path, asked)
    for page in pages:
        assert not RAW.search(page.read_text(encoding="utf-8"))
        harmless(opens(page))
