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
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
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
        "traces", "generate", "--requests", "20000", "--request-rate", "10", "-o", "t.jsonl",
    ],
}  # fmt: skip
LEFT = {
    "simulate": {"out"},
    "report": {"report.html"},
    "generate": {"t.jsonl", "t.jsonl.recipe.json"},
}
"""What each command leaves; whatever else has such a name in its own was a leftover."""


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
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
    return not trace.exists() or len(trace.read_text().splitlines()) == 20_000


class Kills:
    """Rounds over one folder, and what they counted."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.seconds = dict.fromkeys(COMMANDS, 0.0)
        self._whole("simulate, 1 process", [*RUN[:-1], "earlier"])
        shutil.copytree(folder / "earlier", folder / "out")
        for name in COMMANDS:
            self.seconds[name] = self.seconds["simulate, 1 process"]

    @property
    def wrong(self) -> int:
        """How often something was lost, went on, lay about or failed."""
        return sum(
            count
            for what, count in self.counts.items()
            if what.startswith(("processes left", "results lost", "left lying", "next runs failed"))
        )

    def round(self, name: str, also_next: bool) -> None:
        """Start the command, kill it, look what is there, and maybe run it to its end."""
        process = start(self.folder, COMMANDS[name])
        time.sleep(self.rng.uniform(0, 1.1 * self.seconds[name]))
        ended = process.poll() is not None
        if not ended:
            process.kill()
        process.communicate()
        self.counts["had ended" if ended else "killed"] += 1
        self.counts[f"{name}: {'had ended' if ended else 'killed'}"] += 1
        until = time.monotonic() + 5
        while (alive := members(process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        self.counts["processes left after 5 s"] += len(alive)
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lost = not (self.folder / "out").exists() or not is_whole(self.folder)
        self.counts["results lost or torn"] += lost
        if lost:
            print("lost or torn after", name, flush=True)
        if also_next:
            self._whole(name, COMMANDS[name])
            self.counts["next runs"] += 1
            own = LEFT[name.split(",")[0]]
            names = {path.name for path in self.folder.iterdir()} - own
            left = [name for name in names if any(each in name for each in own)]
            self.counts["left lying after the next run"] += len(left)

    def _whole(self, name: str, arguments: list[str]) -> None:
        """The command to its end, which also says how long it takes on the machine as it is now."""
        began = time.monotonic()
        process = start(self.folder, arguments)
        _, said = process.communicate()
        self.seconds[name] = time.monotonic() - began
        if process.returncode != 0:
            self.counts["next runs failed"] += 1
            print(f"{name}: ended with {process.returncode}: {said}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("-n", type=int, default=200, help="how many to kill before they ended")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        kills = Kills(Path(place), options.seed)
        number = 0
        while kills.counts["killed"] < options.n:
            name = list(COMMANDS)[number % len(COMMANDS)]
            kills.round(name, also_next=number // len(COMMANDS) % 4 == 3)
            number += 1
            if number % 20 == 0:
                print(number, dict(kills.counts), flush=True)
    print(json.dumps(kills.counts, indent=1))
    sys.exit(bool(kills.wrong))


if __name__ == "__main__":
    main()
