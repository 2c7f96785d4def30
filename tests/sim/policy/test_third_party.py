"""The policies of docs/adding-a-policy.md: from a file, from an installed package, and broken.

Everything happens in other processes, as a user's commands do.
"""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "adding-a-policy.md"
RUN = ["--model", "llama-2-7b", "--gpu", "a100-40gb", "--first", "40", "--kv-cache-memory", "4GiB"]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A folder with the page's two modules."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for name, word in (("kv_lease", "class Leases"), ("kv_int2", "class Int2")):
        (tmp_path / f"{name}.py").write_text(next(text for text in blocks if word in text))
    return tmp_path


@pytest.fixture
def installed(written: Path) -> Path:
    """The same with the metadata that an installer would write."""
    points = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert points
    section, *lines = points[1].strip().splitlines()
    assert section == '[project.entry-points."kvtwin.policies"]'
    install(written, "\n".join(line.replace('"', "") for line in lines))
    return written


def install(folder: Path, points: str) -> None:
    info = folder / "kv_own-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kv-own\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[kvtwin.policies]\n{points}\n")


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(PAGE.parents[1])])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def kvtwin(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "sim.cli", *arguments)


def run(folder: Path, code: str) -> str:
    done = python(folder, "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_file_beside_you_is_used_checked_shown_and_refused(written: Path) -> None:
    """Forty lines: simulated in two processes, in the report, lawful, and not on real tensors."""
    lines = (written / "kv_lease.py").read_text().splitlines()
    assert len([line for line in lines if line]) <= 40
    plugin = ["--plugin", "kv_lease.py"]
    policies = ["--policy", "paging", "--policy", "lease:share=0.5+int8"]
    done = kvtwin(
        written, "simulate", "azure-2023-conv", *RUN, *plugin, *policies, "--jobs", "2", "-o", "out"
    )
    assert done.returncode == 0, done.stderr
    runs = [json.loads(file.read_text()) for file in sorted(written.glob("out/*/run.json"))]
    leased = next(one for one in runs if one["name"] == "lease:share=0.5+int8")
    assert leased["policy"]["options"]["base"] == {"share": 0.5}
    values = {metric["name"]: metric["value"] for metric in leased["metrics"]}
    assert values["requests"] == 40
    assert values["kv_external_share_mean"] == pytest.approx(50, abs=0.1)  # the other half
    assert values["num_preemptions"] == 0  # all that is needed is taken at admission
    assert "lease:share=0.5+int8" in (written / "out/report.html").read_text()
    run(
        written,
        "from kv_lease import Lease; from sim.policy.laws import check_policy;"
        "check_policy(Lease(share=0.5), histories=100)",
    )
    if find_spec("torch") is None:  # nothing is executed here, this neither
        return
    small = ["--model", "llama-small", "--first", "2", "--policy", "lease", "-o", "checked"]
    done = kvtwin(written, "validate", "azure-2023-conv", *small, *plugin)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kvtwin: error: --policy lease: Leases has no table, so it is simulated and not executed; "
        "expected a method table() of it (docs/adding-a-policy.md)\n"
    )
    assert not (written / "checked").exists()


def test_every_command_that_takes_policies_takes_files_of_them(written: Path) -> None:
    """A lease of half the pool: of 45,957 tokens as paging counts them, 22,978."""
    code = """
from sim.cli import app
own = ["--model", "llama-2-7b", "--gpu", "a100-40gb", "--plugin", "kv_lease.py", "--json"]
two = ["--policy", "paging:block_size=1", "--policy", "lease:share=0.5"]
for words in (["size", "--context", "1000"], ["compare-policies", "azure-2023-conv"]):
    app([*words, *own, *two], result_action="return_value")
"""
    decoder = json.JSONDecoder()
    out = run(written, code)
    sized, end = decoder.raw_decode(out)
    compared, _ = decoder.raw_decode(out[end:].strip())
    assert [one["requests"][0]["fit"] for one in sized["policies"]] == [45, 45957 // 2 // 1000]
    assert sized["policies"][0]["cache_tokens"] == 45957
    assert [one["policy"] for one in compared] == ["paging:block_size=1", "lease:share=0.5"]
    assert compared[0]["requests"] == compared[1]["requests"] > 0


def test_what_a_file_prints_is_no_part_of_the_answer(written: Path) -> None:
    """While it is loaded, made, asked and run: stdout is JSON and nothing else."""
    text = (written / "kv_lease.py").read_text()
    for line in ("        self.taken += seq.final\n", "        return self.slots\n"):
        assert line in text
        text = text.replace(line, f"        print('running')\n{line}")
    (written / "kv_lease.py").write_text(f"print('loading')\n{text}")
    plugin = ["--plugin", "kv_lease.py", "--policy", "lease"]
    done = kvtwin(
        written, "simulate", "azure-2023-conv", *RUN, *plugin, "--json", "-o", "out", "--no-report"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)
    assert {"loading", "running"} <= set(done.stderr.splitlines())


def test_a_law_that_is_broken_is_found(written: Path) -> None:
    """Leases that keep a token back, that count wrongly and that raise: the policy, the law and the
    shortest history in one line. A token of a request that left is nobody's."""
    code = """
from kv_lease import Lease, Leases
from sim.policy.laws import check_policy
class Hoarding(Leases):
    def release(self, seq):
        super().release(seq)
        self.taken += 1
class Losing(Leases):
    def memory(self):
        return super().memory()._replace(metadata=3)
class Raising(Leases):
    def release(self, seq):
        {}[seq.index]
class Broken(Lease):
    def place(self, pool, retained):
        return kind(pool, pool.capacity_bytes // pool.token_bytes)
for kind in (Hoarding, Losing, Raising):
    try:
        check_policy(Broken(share=0.5))
    except AssertionError as error:
        print(type(error).__name__, error)
"""
    hoarding, losing, raising = run(written, code).splitlines()
    for line in (hoarding, losing, raising):
        assert re.match(r"LawBroken broken:share=0\.5: .*; the shortest history: a pool of ", line)
    assert "all have left, but not all memory is free: Memory(live=0, reserved=" in hoarding
    assert hoarding.endswith("request 0 leaves")
    assert re.search(r"broken:share=0.5: memory\(\) sums to [\d,]+ B; expected the pool's ", losing)
    assert losing.endswith(" for requests of up to 11")  # before anything comes
    assert ": KeyError: 0 (<string>, line 13); " in raising


def test_a_manager_that_brings_its_table_is_executed(written: Path) -> None:
    code = """
from kv_lease import Lease
from executor.cache.choice import table_for
from executor.cache.contiguous import Contiguous
from sim.policy.counting.slabs import Slabs
from sim.policy import Pool
class Own(Slabs):
    def table(self):
        return Contiguous(self.total, self.slots)
print(type(table_for(Own(Pool(100, 1, 50), 25, "own"), Lease())).__name__)
"""
    assert run(written, code) == "Contiguous"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nothing_of_that_name", "No module named 'nothing_of_that_name'"),
        ("class Unfinished(", "SyntaxError"),
        ("x = 1", "defines no policy"),
        (None, "FileNotFoundError"),
    ],
)
def test_a_broken_file_is_a_note_and_hides_nothing(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    done = kvtwin(tmp_path, "list", "policies", "--plugin", "mine.py", "--json")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("note: --plugin mine.py: ")
    assert reason in line
    assert "paging" in {row["name"] for row in json.loads(done.stdout)}
    asked = kvtwin(
        tmp_path, "simulate", "azure-2023-conv", *RUN, "--plugin", "mine.py", "--policy", "mine"
    )
    assert asked.returncode == 2
    note, error = asked.stderr.splitlines()
    assert reason in note
    assert error.startswith("kvtwin: error: --policy mine: no policy 'mine'; ")
    assert reason not in error, "said once"


def test_a_broken_package_is_a_note_and_hides_no_other(installed: Path) -> None:
    points = "lease = kv_lease:Lease\nabsent = kv_gone:Gone\nnumber = kv_lease:KEEP_ALL"
    install(installed, points)
    done = kvtwin(installed, "list", "policies", "--json")
    assert {"lease", "paging"} <= {row["name"] for row in json.loads(done.stdout)}
    notes = done.stderr.splitlines()
    assert [line.split(":")[1].split(" (")[0] for line in notes] == [
        " plug-in absent",
        " plug-in number",
    ]


def test_an_installed_package_adds_a_placement_and_a_storage(installed: Path) -> None:
    """Its names are listed, take options, compose with built-in ones and run."""
    code = """
from sim.policy.registry import parse_policy, policies
from sim.policy.manager import Pool
from sim.sequence import Sequence
assert {"lease", "int2"} <= set(policies())
manager = parse_policy("lease:share=0.25").manager(Pool(100, 1, 50))
seq = Sequence(0, 0, 20, 1)
assert manager.can_admit(seq)
manager.admit(seq)
manager.extend(seq, 20)
manager.check_integrity()
print(*manager.memory())
"""
    assert run(installed, code) == "20 0 0 75 0 5"  # a quarter of 100 is 25 slots


def test_a_third_party_storage_wraps_a_built_in_placement(installed: Path) -> None:
    code = """
from sim.memory.ledger import kv_budget
from sim.hardware import find_device
from sim.model.presets import find_model
from sim.policy.registry import parse_policy
pool = kv_budget(find_model("llama-3-8b"), find_device("a100-80gb")).pool()
print(parse_policy("paging:block_size=16+int2:group=64").manager(pool).pool.token_bytes)
"""
    # 65,536 elements of 2 bits, and for each 64 a 16-bit scale
    assert run(installed, code) == str(65_536 // 4 + 65_536 // 64 * 2)


def test_built_in_names_cannot_be_taken_over(installed: Path) -> None:
    """Neither where a policy is named nor in the listing, though a package claims `paging`."""
    install(installed, "paging = kv_lease:Lease")
    code = """
from sim.policy.paging import Paging
from sim.policy.registry import parse_policy, plugin_notes, policies
print(policies()["paging"] is Paging, type(parse_policy("paging")) is Paging, *plugin_notes())
"""
    assert run(installed, code) == "True True plug-in paging: the name is built in, and stays so"
