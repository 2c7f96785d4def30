"""A hundred hostile texts through what the product shows: pages, charts, terminals, files."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reports.build import write_report
from tests.reports.browsing import Opens, browser, needs_chromium, opens, settle, tab
from tests.reports.synthetic import Spec, write_folder

__all__ = ["browser", "opens", "tab"]  # fixtures

ROOT = Path(__file__).parents[2]
CORES = (
    "<script>window.hit=1</script>", "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>", "<a href='https://evil.example/'>here</a>",
    '<a href="javascript:window.hit=1">x</a>', "<svg onload=window.hit=1>", "{{ 7 * 7 }}",
    "{% include 'report.css' %}", "%{customdata}", "{0.__class__}", "${window.hit=1}",
    "\x1b[31mred", "\x1b]8;;https://evil.example\x07link", "\x1b[2J", "a\nkvtwin: error: b",
    "\r over", "\x07\x08", "\x9b31m", "\u202etxt.exe", "\u2066x\u2069",
)  # fmt: skip
TEXTS = [f"{before}{core}" for core in CORES for before in ("", "x ", "'", '">', "&lt;")]


def with_texts(value: Any, texts: list[str]) -> Any:
    """The run with hostile texts in every place where a file brings one."""
    one, two, three, four, five = texts
    value["name"] = one
    value["command"] = two
    value["trace"] |= {"name": three, "source": four, "notes": [five]}
    value["model"]["name"] = two
    value["device"]["name"] = five
    value["policy"]["limitation"] = four
    value["ledger"][0] |= {"name": one, "why": three}
    value["limits"][f"a {{b}} {two}"] = one
    for metric, text in zip(value["metrics"], texts, strict=False):
        metric["formula"] = text
    return value


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = []
    for i in range(0, len(TEXTS), 5):
        spec = Spec(f"policy{i}", 24, "block", requests=20, samples=40)
        folder = write_folder(tmp_path_factory.mktemp("hostile") / str(i), spec)
        file = folder / "run.json"
        content = with_texts(json.loads(file.read_text()), TEXTS[i : i + 5])
        file.write_text(json.dumps(content))
        made.append(folder)
    return made


def test_there_are_a_hundred() -> None:
    assert len(set(TEXTS)) == 100


@needs_chromium
@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_no_page_runs_links_or_obeys_them(
    opens: Opens, folders: list[Path], tmp_path: Path, part: int
) -> None:
    """No script, no live link but the page's own, nothing asked of the network, no raw control."""
    page = write_report(folders[part * 5 : part * 5 + 5], tmp_path / "report.html")
    text = page.read_text(encoding="utf-8")
    for raw in ("\x1b", "\x07", "\x9b", "\u202e", "\u2066"):
        assert text.count(raw) == 0
    opened = opens(page)
    opened.page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    settle(opened.page)
    assert opened.page.evaluate("window.hit") is None
    links = opened.page.evaluate(
        "[...document.querySelectorAll('a')].map(a => a.getAttribute('href')"
        " || a.getAttribute('xlink:href') || '')"
    )
    own = ("#", "data:text/csv", "data:image/")  # downloads hold the texts as data
    assert [link for link in links if link and not link.startswith(own)] == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_a_terminal_obeys_none(folders: list[Path], tmp_path: Path) -> None:
    """Every text as a file's name, a policy and a model, and in the table of a report's runs."""
    script = (
        "import json, sys\n"
        "from sim import cli\n"
        "from pathlib import Path\n"
        "for arguments in json.load(open(sys.argv[1])):\n"
        "    sys.argv = ['kvtwin', *arguments]\n"
        "    try:\n"
        "        cli.main()\n"
        "    except SystemExit as error:\n"
        "        print('CODE', error.code, file=sys.stderr)\n"
    )
    asked = [
        command
        for text in TEXTS
        for command in (
            ["traces", "describe", text],
            ["size", "--model", text, "--gpu", "a100-40gb"],
            ["size", "--model", "llama-2-7b", "--gpu", "a100-40gb", "--policy", text],
        )
    ]
    asked.append(["report", *map(str, folders[:4]), "-o", str(tmp_path / "r.html")])
    (tmp_path / "asked.json").write_text(json.dumps(asked))
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "asked.json")],
        cwd=ROOT,
        capture_output=True,
        check=False,
        timeout=300,
    )
    shown = (done.stdout + done.stderr).decode("utf-8", "strict")
    for raw in ("\x1b", "\x07", "\x08", "\r", "\x9b", "\u202e", "\u2066"):
        assert raw not in shown
    assert "Traceback" not in shown, shown[-3000:]
    lines = done.stderr.decode().splitlines()
    codes = [line for line in lines if line.startswith("CODE ")]
    assert len(codes) == len(asked)
    assert codes[: 3 * len(TEXTS)] == ["CODE 2"] * (3 * len(TEXTS))
    assert sum(line.startswith("kvtwin: error: ") for line in lines) == 3 * len(TEXTS)
