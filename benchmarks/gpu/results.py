"""Results that outlive what kills the run: on disk, and in the archive, once written."""

import json
import os
import tarfile
import time
from pathlib import Path
from typing import Any

ARCHIVE = "gpu-results.tar.gz"


class Results:
    """One JSON file a result in a folder, and one archive of them all.

    Both are written aside and put in place whole: a run that is killed leaves the last state.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._began = folder, time.monotonic()
        self._written: dict[str, Path] = {}

    @property
    def elapsed_s(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._began

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Raises ValueError where the content is no JSON (NaN, objects)."""
        text = json.dumps(content, indent=1, allow_nan=False)
        file = self._folder / f"{name}.json"
        aside = file.with_suffix(".writing")
        aside.write_text(text + "\n", encoding="utf-8")
        os.replace(aside, file)
        self._written[name] = file
        packed = self._folder / f"{ARCHIVE}.writing"
        with tarfile.open(packed, "w:gz") as archive:
            for one in self._written.values():
                archive.add(one, one.name)
        os.replace(packed, self._folder / ARCHIVE)
        print(f"{self.elapsed_s:6.1f} s  {name}", flush=True)


def read_archive(file: Path) -> dict[str, Any]:
    """The results in an archive, by name."""
    with tarfile.open(file) as archive:
        members = [(one.name, archive.extractfile(one)) for one in archive.getmembers()]
        return {Path(name).stem: json.load(member) for name, member in members if member}
