"""Kill commands at random moments: nothing is lost, nothing goes on, nothing is left lying.

    python -m tests.fuzz.kills -n 200 --seed 1

Each round starts simulate (one or two processes), report or generate over an earlier result and
kills it with SIGKILL at a random moment. The earlier result must stand, or the new one whole; no
process of the session may live after 5 s; and the next command of the same kind must leave the
folder as a first one would.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

RUN = [
    "simulate", "azure-2023-conv", "--first", "100", "--model", "llama-2-7b", "--gpu", "a100-40gb",
    "--policy", "paging", "--policy", "preallocation", "--no-report", "-o", "out",
]  # fmt: skip
COMMANDS = {
    "simulate, 1 process": [*RUN, "--jobs", "1"],
    "simulate, 2 processes": [*RUN, "--jobs", "2"],
    "report": ["report", "earlier", "-o", "report.html"],
    "generate": [
        "traces", "generate", "--requests", "50000", "--request-rate", "10", "-o", "t.jsonl",
    ],
}  # fmt: skip
LEFT = {"simulate": {"out"}, "report": {"report.html"}, "generate": {"t.jsonl"}}


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def members(session: int) -> list[int]:
    """Processes of the session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue
            if int(of) == session and state != "Z":
                found.append(int(entry.name))
    return found


def is_whole(folder: Path) -> bool:
    """Whether the earlier result stands, or the new one does."""
    if (folder / "out").exists():
        tables = ("requests.parquet", "steps.parquet", "timeline.parquet")
        runs = sorted((folder / "out").glob("*/run.json"))
        for run in runs:
            json.loads(run.read_text())
            if not all((run.parent / table).exists() for table in tables):
                return False
        if len(runs) != 2:
            return False
    page, trace = folder / "report.html", folder / "t.jsonl"
    if page.exists() and not page.read_text().rstrip().endswith("</html>"):
        return False
    return not trace.exists() or len(trace.read_text().splitlines()) == 50_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        start(folder, [*RUN[:-1], "earlier"]).wait()
        seconds = {}
        for name, arguments in COMMANDS.items():
            began = time.monotonic()
            assert start(folder, arguments).wait() == 0, name
            seconds[name] = time.monotonic() - began
        for number in range(options.n):
            name = list(COMMANDS)[number % len(COMMANDS)]
            process = start(folder, COMMANDS[name])
            time.sleep(rng.uniform(0, 1.1 * seconds[name]))
            ended = process.poll() is not None
            os.kill(process.pid, signal.SIGKILL) if not ended else None
            process.wait()
            counts[f"{name}: {'had ended' if ended else 'killed'}"] += 1
            until = time.monotonic() + 5
            while (alive := members(process.pid)) and time.monotonic() < until:
                time.sleep(0.05)
            counts["processes left after 5 s"] += len(alive)
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            wanted = LEFT[name.split(",")[0]]
            restored = name.startswith("simulate") and not (folder / "out").exists()
            counts["results lost or torn"] += restored or not is_whole(folder)
            if number % 16 >= 12:  # the next run of the same kind
                assert start(folder, COMMANDS[name]).wait() == 0, name
                left = {path.name for path in folder.iterdir()} - {"earlier", "report.html"}
                left -= {"out", "t.jsonl"}
                kind = name.split(",")[0]
                own = {path for path in left if next(iter(wanted)) in path}
                counts[f"left lying after the next {kind}"] += len(own)
                counts["next runs"] += 1
            if number % 20 == 19:
                print(number + 1, dict(counts), flush=True)
    print(json.dumps(counts, indent=1))
    wrong = sum(value for key, value in counts.items() if "left" in key or "lost" in key)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
