"""The cost model of docs/adding-a-cost-model.md: from a file, in workers, in sweeps, packaged."""

import csv
import json
import re
from pathlib import Path

import pytest

from sim.policy import plugins
from sim.run.costs import own_costs
from sim.run.seam import check_cost
from sim.run.simulation import prepare, simulate
from tests.command import kvtwin
from workloads.errors import InputError
from workloads.synthetic import generate

PAGE = Path(__file__).parents[3] / "docs" / "adding-a-cost-model.md"
ONE = generate(1, 1.0, prompt="4", output="3")
LLAMA = {"model": "llama-2-7b", "gpu": "a100-40gb"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The page's module."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "kv_linear.py").write_text(code)
    return tmp_path / "kv_linear.py"


@pytest.fixture
def loaded(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "files", plugins.Found({}, []))
    monkeypatch.setattr(plugins, "costs", {})
    monkeypatch.setattr(plugins, "modules", [])
    plugins.load_file(file)


def test_forty_lines_say_what_steps_take(file: Path, loaded: None) -> None:
    """4 prompt tokens, then two steps that see 5 and 6 keys: 3 x 8 ms + 4 x 100 us + 11 x 60 ns."""
    assert len([line for line in file.read_text().splitlines() if line]) <= 40
    assert plugins.files.notes == []
    assert simulate(ONE, **LLAMA, cost="linear")["makespan_s"] == pytest.approx(0.02440066)
    own = own_costs()["linear"]
    halved = simulate(ONE, **LLAMA, cost=own(step_ms=4.0))["makespan_s"]
    assert halved == pytest.approx(0.01240066)
    setup = prepare(ONE, **LLAMA, cost="linear")
    check_cost(setup.cost(), setup.pool.token_bytes)
    for near in ("lienar", "lienar:step_ms=4"):
        with pytest.raises(InputError, match=f"^--cost {near}: No such.*; did you mean 'linear'?"):
            prepare(ONE, **LLAMA, cost=near)
    with pytest.raises(InputError, match="; expected fixed, linear, roofline, table or a file of"):
        prepare(ONE, **LLAMA, cost="out/costs.json")
    with pytest.raises(InputError, match="linear has no option 'step_s'; did you mean 'step_ms'"):
        prepare(ONE, **LLAMA, cost="linear:step_s=1")
    with pytest.raises(InputError, match=r"^cost model linear: linear\(\) is \(-\d+, "):
        prepare(ONE, **LLAMA, cost="linear:step_ms=-1")


def test_the_page_says_how_a_package_names_it(loaded: None) -> None:
    (points,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert points.split("\n")[0] == '[project.entry-points."kvtwin.costs"]'
    module, name = re.findall(r'linear = "(\w+):(\w+)"', points)[0]
    assert (module, name) == ("kv_linear", own_costs()["linear"].__name__)


def test_runs_and_sweeps_in_workers_use_it(file: Path, loaded: None) -> None:
    """Two policies in two processes say what it rests on; a grid has it beside the roofline."""
    given = ["azure-2023-conv", "--model", "llama-2-7b", "--gpu", "a100-40gb", "--first", "20"]
    given += ["--plugin", str(file), "--jobs", "2"]
    policies = ["--policy", "paging", "--policy", "growing"]
    done = kvtwin("simulate", *given, *policies, "--cost", "linear", "--no-report", cwd=file.parent)
    assert (done.returncode, done.stderr) == (0, "")
    for run in file.parent.glob("out/*/run.json"):
        cost = json.loads(run.read_text())["cost"]
        assert (cost["name"], cost["constants"][0]["value"]) == ("linear", 0.008)
    done = kvtwin("sweep", *given, "--cost", "roofline,linear", "-o", "swept", cwd=file.parent)
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(next(file.parent.glob("swept/*.csv")).open()))
    assert {row["cost"]: row["error"] for row in rows} == {"roofline": "", "linear": ""}
    assert len({row["makespan_s"] for row in rows}) == 2
