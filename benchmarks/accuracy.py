"""docs/accuracy.md, made again: `python benchmarks/accuracy.py`. Some minutes.

The page's words are in benchmarks/recorded/page.md and hold no number; every number comes from
here, and is kept beside it in numbers.json, from which a test makes the page again.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.process import kvtwin, measure, median, processor  # noqa: E402
from benchmarks.recorded import coverage, facts, fits, small, steps, tables  # noqa: E402
from benchmarks.recorded.markdown import markdown  # noqa: E402
from benchmarks.recorded.replay import RUNS  # noqa: E402

PAGE = ROOT / "docs" / "accuracy.md"
WORDS = ROOT / "benchmarks" / "recorded" / "page.md"
NUMBERS = ROOT / "benchmarks" / "recorded" / "numbers.json"
REPEATS = 5

PARTS: dict[str, Callable[[], str]] = {
    "errors_4090": lambda: tables.errors("RTX 4090"),
    "errors_pro_6000": lambda: tables.errors("2 × RTX PRO 6000"),
    "contributions": tables.contributions,
    "waits": tables.waits,
    "steps": steps.by_batch,
    "crossed": tables.crossed,
    "fits": fits.fits,
    "coverage": coverage.coverage,
    "small_kernels": facts.small_kernels,
    "beside_timed": lambda: small.beside_timed()[0],
    "blocks": tables.blocks,
}


def render(numbers: dict[str, str]) -> str:
    """The page: words with their numbers put in."""
    page = WORDS.read_text(encoding="utf-8")
    for name, text in numbers.items():
        page = page.replace(f"{{{name}}}", text)
    return page


def took() -> str:
    """The whole command, loading included: medians, and whose processor it was."""
    rows = []
    for gpu, (name, _, _) in RUNS.items():
        for options in ([], ["--interval", str(coverage.LEVEL)]):
            command = kvtwin("compare-run", name, *options)
            used = median([measure(command) for _ in range(REPEATS)])
            what = " ".join(["compare-run", name, *options])
            rows.append([gpu, f"`{what}`", f"{used.cpu_s:.1f} s", f"{used.peak_mb:.0f} MB"])
    header = ["run", "command", f"CPU, median of {REPEATS}, {processor()}", "memory at most"]
    return markdown(header, rows)


def main() -> None:
    """Measure all, or only the parts named on the command line, and write the page."""
    for name in sys.argv[1:] or [*PARTS, "facts", "took"]:
        print(name, file=sys.stderr, flush=True)
        if name == "facts":
            measured = facts.facts()
        else:
            measured = {name: took() if name == "took" else PARTS[name]()}
        numbers = json.loads(NUMBERS.read_text(encoding="utf-8")) if NUMBERS.exists() else {}
        text = json.dumps(numbers | measured, indent=1, ensure_ascii=False, sort_keys=True)
        NUMBERS.write_text(text + "\n", encoding="utf-8")
    PAGE.write_text(render(json.loads(NUMBERS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
