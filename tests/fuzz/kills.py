"""Kill commands at random moments: nothing is lost, nothing goes on, nothing is left lying.

    python -m tests.fuzz.kills -n 200 --seed 1

Each round starts simulate or sweep (one or two processes), search, report or generate over an
earlier result and ends it at a random moment, by SIGKILL or, once in four, SIGTERM. The earlier
result must stand, or the new one whole; no process of the session may live after 5 s; and the next
command of the same kind must leave the folder, and the one for temporary files, as a first one
would. A sweep's and a search's finished runs must stay, and their tables be the same in the end.
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
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SYSTEM = ["azure-2023-conv", "--first", "100", "--model", "llama-2-7b", "--gpu", "a100-40gb"]
RUN = [
    "simulate", *SYSTEM, "--policy", "paging", "--policy", "preallocation", "--no-report",
    "-o", "out",
]  # fmt: skip
SWEEP = ["sweep", *SYSTEM, "--policy", "paging", "--policy", "preallocation", "-o", "swept"]
SEARCH = ["search", *SYSTEM, "--slo", "ttft_p99=1s", "--resolution", "1", "-o", "searched"]
COMMANDS = {
    "simulate, 1 process": [*RUN, "--jobs", "1"],
    "simulate, 2 processes": [*RUN, "--jobs", "2"],
    "report": ["report", "earlier", "-o", "report.html"],
    "generate": [
        "traces", "generate", "--requests", "20000", "--request-rate", "10", "-o", "t.jsonl",
    ],
    "sweep, 1 process": [*SWEEP, "--set", "request-rate=1:6:1", "--jobs", "1"],
    "sweep, 2 processes": [*SWEEP, "--set", "request-rate=1:6:1", "--jobs", "2"],
    "search": [*SEARCH, "--over", "request_rate=1:16"],
}  # fmt: skip
BEFORE = {
    "sweep": [*SWEEP, "--set", "request-rate=1:2:1", "--jobs", "1"],
    "search": [*SEARCH, "--over", "request_rate=1:2"],
}
"""What had run before."""
LEFT = {
    "simulate": {"out"},
    "report": {"report.html"},
    "generate": {"t.jsonl", "t.jsonl.recipe.json"},
    "sweep": {"swept"},
    "search": {"searched"},
}
"""What each command leaves; whatever else has such a name in its own was a leftover."""
TABLES = {"runs.jsonl", "sweep.csv", "sweep.parquet", "frontier.html"}


def start(folder: Path, arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "sim.cli", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "TMPDIR": str(folder / "temporary"),
        },
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


def finished(folder: Path) -> dict[str, bytes]:
    """A sweep's finished runs by name, and whether what else is in its folder is whole."""
    *lines, _ = (folder / "runs.jsonl").read_bytes().split(b"\n")
    table, page = folder / "sweep.csv", folder / "frontier.html"
    whole = table.read_text().endswith("\n") and page.read_text().rstrip().endswith("</html>")
    return {json.loads(line)["key"]: line for line in lines} if whole else {}


class Kills:
    """Rounds over one folder, and what they counted."""

    def __init__(self, folder: Path, seed: int, names: Sequence[str] = tuple(COMMANDS)) -> None:
        self.folder, self.names = folder, names
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        (folder / "temporary").mkdir()
        self._whole("simulate, 1 process", [*RUN[:-1], "earlier"])
        shutil.copytree(folder / "earlier", folder / "out")
        self.seconds = dict.fromkeys(names, self.seconds["simulate, 1 process"])
        self.tables: dict[str, bytes] = {}
        for name in {name.split(",")[0] for name in names} & set(BEFORE):
            self._prepare(name)

    def _prepare(self, kind: str) -> None:
        """A folder of some finished runs, and the table of all of them."""
        (place,) = (self.folder / name for name in LEFT[kind])
        self._whole(kind, BEFORE[kind])
        shutil.copytree(place, self.folder / "before" / place.name)
        self._whole(kind, next(words for name, words in COMMANDS.items() if name.startswith(kind)))
        self.tables[place.name] = (place / "sweep.csv").read_bytes()

    @property
    def wrong(self) -> int:
        """How often something was lost, went on, lay about or failed."""
        return sum(
            count
            for what, count in self.counts.items()
            if what.startswith(("processes left", "results lost", "left lying", "next runs failed"))
        )

    def round(self, name: str, also_next: bool) -> None:
        """Start the command, end it, look what is there, and maybe run it to its end."""
        own = LEFT[name.split(",")[0]]
        swept = next((self.folder / one for one in own if one in self.tables), None)
        if swept is not None:  # from where it was before, or nothing would be left to run
            shutil.rmtree(swept)
            shutil.copytree(self.folder / "before" / swept.name, swept)
        there = self._lying(own)
        process = start(self.folder, COMMANDS[name])
        time.sleep(self.rng.uniform(0, 1.1 * self.seconds[name]))
        politely = self.rng.random() < 0.25
        ended = process.poll() is not None
        if not ended:
            process.send_signal(signal.SIGTERM if politely else signal.SIGKILL)
        process.communicate()
        how = "had ended" if ended else "terminated" if politely else "killed"
        self.counts[how] += 1
        self.counts[f"{name}: {how}"] += 1
        until = time.monotonic() + 5
        while (alive := members(process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        self.counts["processes left after 5 s"] += len(alive)
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        lost = not (self.folder / "out").exists() or not is_whole(self.folder)
        if swept is not None:
            before = finished(self.folder / "before" / swept.name)
            after = finished(swept)
            lost |= not before or not before.items() <= after.items()
        self.counts["results lost or torn"] += lost
        if lost:
            print("lost or torn after", name, flush=True)
        if how == "terminated":
            self._count("left lying after SIGTERM", self._lying(own) - there)
        if also_next:
            self._whole(name, COMMANDS[name])
            self.counts["next runs"] += 1
            self._count("left lying after the next run", self._lying(own))
            if swept is not None:
                inside = {path.name for path in swept.iterdir()}
                self._count("left lying in a sweep's folder", inside ^ TABLES)
                same = (swept / "sweep.csv").read_bytes() == self.tables[swept.name]
                self.counts["results lost: another table"] += not same

    def _lying(self, own: set[str]) -> set[str]:
        """What lies beside the command's own, and in the folder of temporary files."""
        names = {path.name for path in self.folder.iterdir()} - own
        left = {name for name in names if any(each in name for each in own)}
        return left | {path.name for path in (self.folder / "temporary").iterdir()}

    def _count(self, what: str, found: set[str]) -> None:
        self.counts[what] += len(found)
        if found:
            print(what, found, flush=True)

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
    parser.add_argument("-n", type=int, default=200, help="how many to end before they do")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        kills = Kills(Path(place), options.seed)
        number = 0
        while kills.counts["killed"] + kills.counts["terminated"] < options.n:
            name = list(COMMANDS)[number % len(COMMANDS)]
            kills.round(name, also_next=number // len(COMMANDS) % 4 == 3)
            number += 1
            if number % 20 == 0:
                print(number, dict(kills.counts), flush=True)
    print(json.dumps(kills.counts, indent=1))
    sys.exit(bool(kills.wrong))


if __name__ == "__main__":
    main()
