"""What the compiler made of every configuration the suite judges, by what it was given.

Compiling is a pure function of its input, so ``record.json`` has a row for each, under a key that
covers all of it (``key_of``). The suite makes every configuration's input anew, takes over the rows
of those that are recorded and compiles the others. To see that the record says what the compiler
does, it compiles some in any case: every kernel in a configuration of CHECKED.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from triton import __version__
from triton.backends.nvidia.compiler import get_ptxas_version

from benchmarks.aot.cases import CASES, Case
from benchmarks.aot.compile import compile_case
from benchmarks.aot.measure import Row, launched_by, measure

RECORD = Path(__file__).with_name("record.json")
ARCHS = (80, 90)
# Together every kernel, each in one of the configurations that compile fastest.
CHECKED = (
    "decode native bfloat16 d64 page16 g4",
    "decode int8 bfloat16 d64 page1 g5 window",
    "prefill native bfloat16 d128 page16 first",
    "store native d128",
    "rank native d128 page16",
    "blocks",
)


@dataclass(frozen=True, slots=True)
class Seen:
    row: Row
    compiled: bool  # in this process; taken over from the record otherwise


def tools() -> dict[str, str]:
    """The compiler's versions; other ones make other rows."""
    return {"triton": __version__, "ptxas": get_ptxas_version(80).split()[-1]}


def see(recorded: Mapping[str, Row], cases: Iterable[Case] = CASES) -> dict[str, Seen]:
    """By key, the row of every configuration; a kernel that two cases share, once."""
    seen: dict[str, Seen] = {}
    for arch in ARCHS:
        for case in cases:
            known = () if case.name in CHECKED else recorded.keys()
            for compiled in compile_case(case, arch, known):
                key = compiled.key
                if not key or key in seen:
                    continue
                if compiled.kernel is None:
                    seen[key] = Seen(launched_by(case, recorded[key]), False)
                else:
                    seen[key] = Seen(measure(case, compiled, arch), True)
    return seen


def differences(recorded: Mapping[str, Row], seen: Mapping[str, Seen]) -> list[str]:
    """Why the record is not what ``see`` would make of nothing; a line each."""
    missing, left = seen.keys() - recorded.keys(), recorded.keys() - seen.keys()
    lines = [f"{named(seen[key].row)}: not recorded" for key in missing]
    lines += [f"{named(recorded[key])}: recorded, but is no configuration's now" for key in left]
    for key in recorded.keys() & seen.keys():
        was, now = asdict(recorded[key]), asdict(seen[key].row)
        for field in now:
            if was[field] != now[field]:
                name = named(seen[key].row)
                lines.append(f"{name}: {field} {now[field]}, recorded as {was[field]}")
    return sorted(lines)


def named(row: Row) -> str:
    return f"{row.case} {row.kernel} sm_{row.arch}"


def read(path: Path = RECORD) -> dict[str, Row] | None:
    """By key, the recorded rows; None where other tools made them than are installed."""
    record = json.loads(path.read_text())
    if record.pop("tools") != tools():
        return None
    return {key: Row(**row) for key, row in record["rows"].items()}


def write(path: Path = RECORD) -> None:
    """Compiles everything."""
    rows = {key: seen.row for key, seen in see({}).items()}
    order = sorted(rows, key=lambda key: (rows[key].arch, rows[key].case, rows[key].kernel, key))
    lines = ",\n".join(f'"{key}": {json.dumps(asdict(rows[key]))}' for key in order)
    path.write_text(f'{{"tools": {json.dumps(tools())}, "rows": {{\n{lines}\n}}}}\n')
