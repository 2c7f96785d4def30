"""The Chinese catalogue is whole: every text a page or summary may say has its translation."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports import comparison, sections, sweep
from reports.build import render
from reports.figures import sweep as sweep_figure
from reports.figures import time_split, waterfall
from reports.language import catalogue, speaking
from reports.load import load_runs
from reports.show import print_run
from reports.theme import SHOWN_USES
from reports.verdict import RULE, verdict
from sim import simulate
from tests.reports.cases import Case, write_case
from tests.reports.synthetic import PAGING, PREALLOCATION, Write

PACKAGE = Path(sections.__file__).parent


def in_python() -> Iterator[str]:
    """First arguments of tr(...), both branches of a conditional one."""
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tr":
                for part in ast.walk(node.args[0]):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield part.value
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "counted":
                yield ast.literal_eval(node.args[1])


def in_templates() -> Iterator[str]:
    """Texts of _("...")."""
    for file in (PACKAGE / "templates").glob("*.j2"):
        yield from re.findall(r'_\("((?:[^"\\]|\\.)*)"', file.read_text(encoding="utf-8"))


def in_tables() -> Iterator[str]:
    """Texts that are looked up by variables."""
    yield RULE
    yield from comparison.GROUPS
    yield "Other"
    yield from sections.LIMITS.values()
    yield from sections.IN_SENTENCES
    yield from sections.IN_SENTENCES.values()
    yield from ("simulated", "measured", "continuous", "static", "recompute", "swap", "latest")
    yield from time_split.PARTS
    yield from waterfall.PARTS
    for use in SHOWN_USES.values():
        yield from (use.label, use.meaning)
    for axis in (sweep.RATE, *sweep.AXES):
        yield from (axis.name, axis.title)
    for title, unit, _, _ in sweep_figure.PANELS:
        yield from (title, unit)
    yield from ("time to first token", "time per output token", "end-to-end latency")
    yield from ("arrived", "done", "arrivals end", "falls behind", "least taken", "most taken")
    yield from ("running", "waiting", "KV taken")


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
        assert metric["label"] in known
        assert metric["formula"] in known


@pytest.fixture
def run_metrics_of_a_simulation() -> list[dict[str, str]]:
    run = simulate("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=5,
                   policy="paging:block_size=16")  # fmt: skip
    return [{"label": metric.label, "formula": metric.formula} for metric in run.metrics_list]


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


def test_the_chinese_readme_has_every_command_and_section() -> None:
    english, chinese = (
        (PACKAGE.parent / name).read_text(encoding="utf-8")
        for name in ("README.md", "README.zh.md")
    )

    def blocks(text: str) -> list[str]:
        return re.findall(r"```\w*\n.*?```", text, re.S)

    def links(text: str) -> list[str]:
        return sorted(set(re.findall(r"\]\((docs/[^)]*|workloads/[^)]*|DESIGN.md)\)", text)))

    assert blocks(chinese) == blocks(english)
    assert links(chinese) == links(english)
    assert chinese.count("\n## ") == english.count("\n## ")
    assert chinese.count("\n* ") == english.count("\n* ")
