"""The Chinese catalogue is whole: every text a page or summary may say has its translation."""

import ast
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from cyclopts import App
from rich.console import Console

from reports import comparison, sections, sweep, terminal
from reports.build import render
from reports.figures import agreement, time_split, waterfall
from reports.figures import frontier as frontier_figure
from reports.figures import sweep as sweep_figure
from reports.language import catalogue, retold, speaking, spoken, tr
from reports.load import load_runs
from reports.show import print_run
from reports.theme import SHOWN_USES
from reports.verdict import RULE, verdict
from sim import simulate
from sim.cli import app
from sim.commands import spoken_help
from sim.run.folder import write_run
from sim.run.options import RunOptions
from sim.run.simulation import execute, prepared
from tests.reports.cases import Case, write_case
from tests.reports.synthetic import PAGING, PREALLOCATION, Write
from workloads.errors import InputError

PACKAGE = Path(sections.__file__).parent


def in_python() -> Iterator[str]:
    """First arguments of tr(...), both branches of a conditional one."""
    for file in [*PACKAGE.rglob("*.py"), *PACKAGE.parent.glob("sim/**/*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tr":
                yield from texts(node.args[0])
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "counted":
                yield from texts(node.args[1])


def texts(node: ast.expr) -> Iterator[str]:
    """Its own, or both branches'."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*texts(node.body), *texts(node.orelse))


def in_templates() -> Iterator[str]:
    """Texts of _("...")."""
    for file in (PACKAGE / "templates").glob("*.j2"):
        yield from re.findall(r'_\("((?:[^"\\]|\\.)*)"', file.read_text(encoding="utf-8"))


def in_tables() -> Iterator[str]:
    """Texts that are looked up by variables."""
    yield RULE
    yield from comparison.GROUPS
    yield "Other"
    yield from terminal.SHORT.values()
    yield from ("yes", "no", "arrival", "preemptions")
    yield from ("shared layers", "layers", "of them", "of scales", "per token", "per sequence")
    yield from ("longest", "shortest", "without the warm-up")
    yield from sections.LIMITS.values()
    yield from sections.IN_SENTENCES
    yield from sections.IN_SENTENCES.values()
    yield from ("simulated", "measured", "continuous", "static", "recompute", "swap", "latest")
    yield from time_split.PARTS
    for look in agreement.VERDICTS.values():
        yield from filter(None, (look.word, look.meaning))
    yield from waterfall.PARTS
    for use in SHOWN_USES.values():
        yield from (use.label, use.meaning)
    for axis in (sweep.RATE, *sweep.AXES):
        yield from (axis.name, axis.title)
    for title, unit, _, _ in sweep_figure.PANELS:
        yield from (title, unit)
    yield from ("time to first token", "time per output token", "end-to-end latency")
    yield from ("arrived", "done", "falls behind", "least taken", "most taken")
    yield from frontier_figure.NAMES.values()
    yield from ("users", "requests at once")
    yield from ("running", "waiting", "KV taken", "request id", "prompt", "output", "preempted")


ALL = sorted({*in_python(), *in_templates(), *in_tables()} - {""})


def test_every_text_has_a_translation() -> None:
    known = catalogue("zh")
    assert [text for text in ALL if text not in known] == []


def test_translations_keep_the_fields() -> None:
    known = catalogue("zh")
    for text, translated in known.items():
        fields = sorted(re.findall(r"\{(\w*)\}", text))
        assert sorted(re.findall(r"\{(\w*)\}", translated)) == fields, text
        assert translated, text


def test_every_metric_of_a_run_is_translated(
    run_metrics_of_a_simulation: list[dict[str, str]],
) -> None:
    known = catalogue("zh")
    for metric in run_metrics_of_a_simulation:
        with speaking("zh"):
            assert metric["label"] in known or retold(metric["label"]) != metric["label"]
            assert metric["formula"] in known or retold(metric["formula"]) != metric["formula"]


@pytest.fixture
def run_metrics_of_a_simulation() -> list[dict[str, str]]:
    runs = [
        simulate("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=5, policy="paging",
                 slo="ttft_p99=2s", price="a100-40gb=2/h", watts="a100-40gb=400W"),
        simulate("coding-agents", model="llama-3.1-8b", gpu="h100", first=20, users=2,
                 policy="paging+prefix"),
        simulate("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=5, policy="paging",
                 replicas=2),
    ]  # fmt: skip
    return [
        {"label": metric.label, "formula": metric.formula}
        for run in runs
        for metric in run.metrics_list
    ]


def test_the_page_speaks_chinese(write_run: Write) -> None:
    with speaking("zh"):
        page = render(load_runs([write_run(PREALLOCATION), write_run(PAGING)]))
    assert '<html lang="zh-CN">' in page
    assert "跟得上" in page
    for english in ("Skip to the results", "Runs compared", "How to reproduce", "keeps up"):
        assert english not in page
    assert render(load_runs([write_run(PAGING, "b")])).count("跟得上") == 0


def test_the_terminal_speaks_chinese(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run,) = load_runs([write_case(tmp_path / "x", Case())])
    with speaking("zh"):
        print_run(run)
        said = verdict([run])
    out = capsys.readouterr().out
    assert "10 s" in said.headline
    assert "从 10 s 起" in said.headline
    assert "最慢的请求" in out
    json.dumps(said.details)


def test_chinese_lines_break_between_signs() -> None:
    """Neither a number from its unit, nor a word, nor before punctuation; no space at an end."""
    text = "一" * 36 + "浪费 74.7 %。" + "二" * 34 + "paging、" + "三" * 35 + "（甲）"
    with speaking("zh"):
        assert terminal.wrapped(text) == [
            "一" * 36 + "浪费",
            "74.7 %。" + "二" * 34,
            "paging、" + "三" * 35,
            "（甲）",
        ]


def test_the_chinese_readme_has_every_command_and_section() -> None:
    english, chinese = (
        (PACKAGE.parent / name).read_text(encoding="utf-8")
        for name in ("README.md", "README.zh.md")
    )

    def blocks(text: str) -> list[str]:
        """Without their comments."""
        return [re.sub(r" *# .*", "", block) for block in re.findall(r"```\w*\n.*?```", text, re.S)]

    def links(text: str) -> list[str]:
        return sorted(set(re.findall(r"\]\((docs/[^)]*|workloads/[^)]*|DESIGN.md)\)", text)))

    assert blocks(chinese) == blocks(english)
    assert links(chinese) == links(english)
    assert chinese.count("\n## ") == english.count("\n## ")
    assert chinese.count("\n* ") == english.count("\n* ")
    prose = re.sub(
        r"\n    .*|`[^`]*`|\]\([^)]*\)", " ", re.sub(r"```.*?```", " ", chinese, flags=re.S)
    )
    assert re.findall(r"(?<![\w./-])[a-z]{3,} [a-z]{3,}\b", prose) == []
    comments = re.findall(r"# (.*)", "".join(re.findall(r"```.*?```", chinese, re.S)))
    assert [text for text in comments if not re.search("[\u4e00-\u9fff]", text)] == []


def commands(group: App = app, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command, as words."""
    yield before
    for name in group:
        if not name.startswith("-"):
            yield from commands(group[name], (*before, name))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_every_help_is_translated(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each text it asks the catalogue for is there, and nothing else is said."""
    known, asked = catalogue("zh"), []

    def noticing(text: str, /, **values: object) -> str:
        asked.append(text)
        return tr(text, **values)

    monkeypatch.setattr(spoken_help, "tr", noticing)
    out = io.StringIO()
    with speaking("zh"):
        app.help_print(list(words), console=Console(file=out, width=100))
    assert [text for text in asked if text not in known] == []
    assert len(asked) > 3
    said = out.getvalue()
    assert "用法：" in said
    assert "--lang" in said or before_a_group(words)
    assert not re.search(r"\[(required|default|choices)", said)


@pytest.mark.parametrize("command", ["search", "sweep"])
def test_every_option_of_a_grid_is_described(command: str) -> None:
    """None is blank."""
    out = io.StringIO()
    app.help_print([command], console=Console(file=out, width=200))
    options = [line for line in out.getvalue().splitlines() if re.match(r"│ \*? *--", line)]
    assert len(options) > 35
    blank = [line for line in options if not re.sub(r"--?[a-z-]+|[A-Z]{3,}|[│.* ]", "", line)]
    assert blank == []


def before_a_group(words: tuple[str, ...]) -> bool:
    return words in {("advise",), ("list",), ("profiles",), ("reproduce",), ("traces",)}


def test_lang_may_stand_anywhere_and_names_a_language() -> None:
    assert spoken(["report", "x", "--lang", "zh", "--csv", "y"]) == (
        "zh", ["report", "x", "--csv", "y"])  # fmt: skip
    assert spoken(["--lang=zh", "size"]) == ("zh", ["size"])
    assert spoken(["size", "--help"]) == ("en", ["size", "--help"])
    with pytest.raises(InputError, match="--lang xx: expected one of en, zh"):
        spoken(["--lang", "xx"])


@pytest.mark.parametrize(
    ("text", "translated"),
    [
        ("given by --kv-cache-memory", "由 --kv-cache-memory 给出"),
        ("sampler: 256 sequences × 32,000 logits × 26 B",
         "采样器：256 个序列 × 32,000 个 logit × 26 B"),
        ("outside the profile, by roofline: tokens of a chunk, 96 beyond 4,000",
         "超出 profile，按 roofline 计：块的 token 数，超过 4,000 达 96"),
        ("rounds keys and values to 8 bits; attends to chosen tokens alone",
         "键和值舍入到 8 位；只关注选出的 token"),
        ("of all requests asked, without an answer infinite; at most 2 s; without the warm-up",
         "在所有已发出的请求中，无回答者计为无穷；至多 2 s；不含预热期"),
        ("interpolated linearly between the two nearest values; without the warm-up",
         "在最近的两个值之间线性插值；不含预热期"),
        ("runs are compiled (KVTWIN_COMPILE=0 interprets them); compiling takes about half a "
         "minute, once",
         "运行以编译形式执行（KVTWIN_COMPILE=0 则解释执行）；编译约需半分钟，仅一次"),
        ("a text of somebody else's", "a text of somebody else's"),
    ],
)  # fmt: skip
def test_what_a_folder_brings_is_a_filled_template(text: str, translated: str) -> None:
    assert retold(text) == text
    with speaking("zh"):
        assert retold(text) == translated


class Prose(HTMLParser):
    """The texts that a reader sees or hears, apart from code, scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "input", "br", "link", "line", "img"):
            self._open.append(tag)
        self.found += [value for name, value in attrs if name in ("title", "aria-label") and value]

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1] == tag:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if not {"script", "style", "code", "pre"} & {*self._open}:
            self.found.append(data)


def english(page: str) -> list[str]:
    """Texts with two small English words side by side; names have capitals, digits or signs."""
    prose = Prose()
    prose.feed(page)
    return [text for text in prose.found if re.search(r"(?<![\w./-])[a-z]{2,} [a-z]{2,}\b", text)]


def test_the_scan_finds_english() -> None:
    assert english("<p>Waits for others</p><code>left as is</code>") == ["Waits for others"]
    assert english('<p title="not yet">KV cache, paging</p>') == ["not yet"]


SETUPS: list[dict[str, object]] = [
    {"policy": "growing"},
    {"policy": "paging+prefix+int8", "engine": "vllm-0.32", "slo": "ttft_p99=2s"},
    {"policy": "paging+sliding_window:window=64", "preemption": "swap", "batching": "static"},
    {"policy": "paging+top_k:k=64", "tp": 2, "request_rate": 2.0, "price": "rtx-4090=1/h"},
    {"policy": "paging", "cost": "table", "users": 3, "kv_cache_memory": "4GiB"},
    {"policy": "preallocation:reserve=oracle", "cost": "fixed:seconds=0.03", "horizon": 5.0},
]


@pytest.mark.parametrize("setup", SETUPS, ids=lambda setup: str(setup["policy"]))
def test_no_english_is_left_of_a_real_run(
    tmp_path: Path, setup: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither on its page nor on the terminal."""
    given = {"model": "llama-3.1-8b", "gpu": "rtx-4090", "first": 25, "max_model_len": 4096}
    options = RunOptions(**{**given, **setup})  # type: ignore[arg-type]
    run = execute(prepared("azure-2023-conv", options))
    (folder := tmp_path / "run").mkdir()
    write_run(run, folder, "kvtwin simulate")
    with speaking("zh"):
        assert english(render(load_runs([folder]))) == []
        print_run(load_runs([folder])[0])
    assert english(capsys.readouterr().out) == []


def test_no_english_is_left_on_the_page_of_sizes(tmp_path: Path) -> None:
    with speaking("zh"), pytest.raises(SystemExit):
        app(["size", "--model", "gemma-3-27b", "--gpu", "h100", "--context", "4096",
             "-o", str(tmp_path / "size.html")], exit_on_error=False)  # fmt: skip
    assert english((tmp_path / "size.html").read_text()) == []


@pytest.mark.parametrize("trace", ["mooncake-synthetic", "coding-agents"])
def test_no_english_is_left_on_the_page_of_a_trace(tmp_path: Path, trace: str) -> None:
    with speaking("zh"), pytest.raises(SystemExit):
        app(["traces", "describe", trace, "-o", str(tmp_path / "trace.html"), "--then", "first=50"],
            exit_on_error=False)  # fmt: skip
    page = (tmp_path / "trace.html").read_text()
    assert english(page) == []
    assert "提示（token，对数）" in page
