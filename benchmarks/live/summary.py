"""Errors of paired runs beside the spread of the live ones.

    python -m benchmarks.live.summary out/live/pairs.json

An error is (predicted − measured) ÷ measured of one pair. Spread is how far the measured values lie
apart, (largest − smallest) ÷ median.
"""

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any


def rows(pairs: list[dict[str, Any]]) -> list[list[str]]:
    """A line a metric: measured, spread, and the errors' median, smallest and largest."""
    found = []
    for name in pairs[0]["metrics"]:
        each = [pair["metrics"][name] for pair in pairs]
        live = [one["measured"] for one in each]
        off = [one["error_pct"] for one in each]
        spread = 100 * (max(live) - min(live)) / median(live)
        judged = name.endswith("_mean") or name == "makespan_s"
        within = "yes" if abs(median(off)) <= 2 * spread else "**no**"
        found.append(
            [
                name, f"{median(live):,.1f}", f"{spread:.1f}", f"{median(off):+.1f}",
                f"{min(off):+.1f} to {max(off):+.1f}", within if judged else "",
            ]
        )  # fmt: skip
    return found


def main() -> None:
    """A table a load, in Markdown."""
    for load, pairs in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")).items():
        decided = [pair["decisions"] for pair in pairs]
        print(f"\n{load}, {len(pairs)} pairs; measured / predicted, pair by pair:")
        for what in decided[0]:
            print(f"{what}: {', '.join(f'{a}/{b}' for a, b in (one[what] for one in decided))}")
        head = ["metric", "measured", "spread, %", "error, %", "all errors, %", "mean within"]
        print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
        for row in rows(pairs):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
