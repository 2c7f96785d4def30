"""Compiles every shipped kernel configuration without a GPU and tabulates what came out.

``python -m benchmarks.aot [--json | --markdown] [--arch 90] [--case decode]`` compiles and shows.
``--record`` and ``--recorded`` are about ``record.json``, see ``record.py``.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from dataclasses import asdict

from benchmarks.aot import record
from benchmarks.aot.compile import SHARED_LIMIT, table

SHOWN = ("case", "arch", "warps", "registers", "spill_bytes", "shared_bytes", "loop", "issue_share")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aot", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON, no prefill loops")
    parser.add_argument("--markdown", action="store_true", help="the table of docs/kernels.md")
    parser.add_argument("--arch", type=int, action="append", choices=sorted(SHARED_LIMIT))
    parser.add_argument("--case", default="", help="only cases whose name contains this")
    parser.add_argument("--loops", default="", help="loops of cases whose name contains this alone")
    parser.add_argument("--record", action="store_true", help="compile all, write record.json")
    parser.add_argument("--recorded", action="store_true", help="JSON: what the suite judges")
    options = parser.parse_args(argv)
    gc.freeze()  # torch's objects, which no collection would free
    if options.record:
        record.write()
        return
    if options.recorded:
        recorded = record.read()
        seen = record.see(recorded or {})
        rows = [asdict(one) for one in seen.values()]
        stale = [] if recorded is None else record.differences(recorded, seen)
        print(json.dumps({"seen": rows, "stale": stale}))
        return
    archs = options.arch or sorted(SHARED_LIMIT)
    wanted = table(archs, lambda case: options.case in case.name, not options.json, options.loops)
    rows = [asdict(row) for row in wanted]
    if options.json:
        print(json.dumps(rows, indent=1))
        return
    if options.markdown:
        rows = [{key: row[key] for key in SHOWN} for row in rows if row["loop"]]
        print(f"| {' | '.join(SHOWN)} |\n{'|---' * len(SHOWN)}|")
        for row in rows:
            print(f"| {' | '.join(str(value or '') for value in row.values())} |")
        return
    if not rows:
        return
    widths = {key: max(len(key), *(len(str(row[key])) for row in rows)) for key in rows[0]}
    for row in [{key: key for key in widths}, *rows]:
        print("  ".join(str(row[key]).ljust(width) for key, width in widths.items()))


if __name__ == "__main__":
    main(sys.argv[1:])
