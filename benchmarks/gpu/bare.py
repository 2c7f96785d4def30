"""`make gpu` where there is nothing but what a lent machine has, and killed at five moments.

    python -m benchmarks.gpu.bare [-o FOLDER] [--kills 1 2 3 4 5]

Makes an environment of this Python with links to the packages that such a machine brings, and no
others: what the project needs besides must come from wheels/ (`make wheels GPU_PYTHON=...` of this
Python). Copies the tree beside it, runs `REHEARSE=1 make gpu` to its end, and reads the archive
back; then again, killed with its whole process group right after the first result, the second, and
so on: nothing that was announced may be missing. Exits 1 with what was wrong.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from benchmarks.gpu.plan import REHEARSAL
from benchmarks.gpu.results import ARCHIVE, read_archive

ROOT = Path(__file__).parents[2]
BROUGHT = (
    *("torch", "triton", "numpy", "pandas", "pyarrow", "joblib", "jinja2", "rich"),
    *("pytest", "pytest-xdist", "pip"),
)
LACKING = ("simpy", "pydantic", "plotly", "cyclopts", "kvtwin")
PHASES = ("ceilings", "checks", "attention", "steps", "tests")


def main() -> int:
    """Make the environment, run, kill, and say what was found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.bare", description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("out/bare"))
    parser.add_argument("--kills", type=int, nargs="*", default=[1, 2, 3, 4, 5])
    options = parser.parse_args()
    folder = options.output.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    python = environment(folder / "python")
    tree = copied(folder / "tree")
    wrong = whole(tree, python, folder / "whole")
    for results in options.kills:
        wrong += killed(tree, python, folder / f"killed-{results}", results)
    print("\n".join(wrong) or "nothing was wrong")
    return int(bool(wrong))


def environment(folder: Path) -> Path:
    """A Python with links to those packages and all that they need."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in sorted(with_needs(BROUGHT)):
        found = distribution(name)
        tops = {Path(str(file)).parts[0] for file in found.files or ()}
        for top in tops - {"..", "__pycache__"}:
            target = Path(str(found.locate_file(top)))
            if not (site / top).exists():
                (site / top).symlink_to(target)
    python = folder / "bin" / "python"
    ask = f"from importlib.util import find_spec; print([n for n in {LACKING} if find_spec(n)])"
    there = said([python, "-c", ask], folder).strip()
    assert there == "[]", f"the environment is not bare: {there}"
    return python


def with_needs(names: tuple[str, ...]) -> set[str]:
    """Those packages and what they require, extras aside, as far as it is installed here."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            plain = [need for need in needs if "extra ==" not in need]
            todo += [re.split(r"[^A-Za-z0-9_.-]", need, maxsplit=1)[0] for need in plain]
    return found


def copied(folder: Path) -> Path:
    """What git knows of this tree, as it lies here, and wheels/."""
    listed = said(["git", "ls-files", "-z"], ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    if not list((ROOT / "wheels").glob("*.whl")):
        sys.exit("wheels/ is empty: run make wheels, with GPU_PYTHON of this Python, before")
    shutil.copytree(ROOT / "wheels", folder / "wheels")
    return folder


def started(tree: Path, python: Path, out: Path) -> "subprocess.Popen[str]":
    kept = ("PATH", "HOME", "LANG", "TMPDIR")
    return subprocess.Popen(
        ["make", "gpu", "REHEARSE=1", f"PYTHON={python}", f"OUT={out}"],
        cwd=tree,
        env={name: os.environ[name] for name in kept if name in os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def announced(line: str) -> str | None:
    """The result that a line of the program tells of."""
    found = re.fullmatch(r" *[0-9.]+ s  (\S+)\n", line)
    return found[1] if found else None


def whole(tree: Path, python: Path, out: Path) -> list[str]:
    """What is wrong with a run to its end."""
    began = time.monotonic()
    running = started(tree, python, out)
    text, _ = running.communicate()
    print(f"to its end: {time.monotonic() - began:.0f} s, exit {running.returncode}")
    wrong = [] if running.returncode == 0 else [f"exit {running.returncode}: {text[-800:]}"]
    if not (out / ARCHIVE).exists():
        return [*wrong, "no archive"]
    found: dict[str, Any] = read_archive(out / ARCHIVE)
    print(f"archive: {', '.join(found)}")
    wrong += [f"{name}: {one['error']}" for name, one in found.items() if "error" in one]
    wrong += [f"no {name}" for name in PHASES if name not in found]
    validated = [name for name in found if name.startswith("validation-")]
    if len(validated) < len(REHEARSAL.policies):
        # The program begins none that it would not finish: on a busy machine some are left out.
        print(f"{len(validated)} of {len(REHEARSAL.policies)} validations were begun")
    return wrong + ([] if validated else ["no validation"])


def killed(tree: Path, python: Path, out: Path, results: int) -> list[str]:
    """What is missing where a run was killed after so many results."""
    running = started(tree, python, out)
    assert running.stdout is not None
    names: list[str] = []
    for line in running.stdout:
        if name := announced(line):
            names.append(name)
            if len(names) == results:
                os.killpg(running.pid, signal.SIGKILL)
                break
    names += [name for line in running.stdout if (name := announced(line))]
    running.wait()
    found = read_archive(out / ARCHIVE) if (out / ARCHIVE).exists() else {}
    print(f"killed after {', '.join(names)}: archive has {', '.join(found)}")
    return [f"killed after {results}: {name} is lost" for name in names if name not in found]


def said(command: list[Any], folder: Path) -> str:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
