"""Grids: values as people write them, combinations, samples, names of runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.run.options import RunOptions
from sim.sweep.fingerprint import key_of, self_contained, settings_of, trace_digest
from sim.sweep.given import GridOptions, grid_of
from sim.sweep.grid import Grid, make_grid, read_values
from sim.sweep.shared import map_shared, shared_bytes
from sim.sweep.sweep import plan_of
from tests.made_up import write_model
from workloads import read_trace
from workloads.errors import InputError
from workloads.made import make_workload

BASE = RunOptions(model="llama-2-7b", gpu="a100-40gb")


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("request_rate", "1:3:1", [1.0, 2.0, 3.0]),
        ("request_rate", "0.1:0.3:0.1", [0.1, 0.2, 0.3]),
        ("request_rate", "0.5,2:4:2", [0.5, 2.0, 4.0]),
        ("max_num_seqs", "64,128", [64, 128]),
        ("max_num_seqs", "1:8:3", [1, 4, 7]),
        ("block_size", "16,32", ["16", "32"]),
        ("gpu", "h100,l4", ["h100", "l4"]),
        ("fast_forward", "true,False", [True, False]),
        ("batching", "static", ["static"]),
        ("think_time", "exponential:10s,2s", ["exponential:10s", "2s"]),
        ("slo", "ttft_p99=2s,tpot_p50=1s", ["ttft_p99=2s,tpot_p50=1s"]),
        ("gpu", "custom:memory=1GiB,flops=2TFLOP/s", ["custom:memory=1GiB,flops=2TFLOP/s"]),
        ("policy", "paging+prefix", ["paging+prefix"]),
    ],
)
def test_values(name: str, text: str, values: list[Any]) -> None:
    found = read_values(name, [text])
    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("max_num_seqs", "64,many", "--set max_num_seqs=many: expected a whole number"),
        ("request_rate", "3:1:1", "expected FROM:TO:STEP"),
        ("request_rate", "1:3:0", "expected FROM:TO:STEP"),
        ("request_rate", "1:nan:1", "expected FROM:TO:STEP"),
        ("request_rate", "0:1:0.0000001", "at most 100,000 values"),
        ("request_rate", "1,,2", "expected values between the commas"),
        ("batching", "dynamic", "expected one of continuous, static"),
        ("fast_forward", "yes", "expected true or false"),
    ],
)
def test_no_values(name: str, text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_values(name, [text])
    assert said in str(caught.value)


def test_every_combination_once_in_order() -> None:
    grid = make_grid(BASE, {"tp": [1, 2], "max_num_seqs": [8, 16, 32]})
    points = list(grid.points())
    assert len(points) == len(grid) == 6
    assert points[:2] == [{"tp": 1, "max_num_seqs": 8}, {"tp": 1, "max_num_seqs": 16}]
    sample = list(grid.points(4, seed=1))
    assert sample == [point for point in points if point in sample]
    assert len(sample) == 4
    assert list(grid.points(99)) == points


def test_options_of_policies() -> None:
    """`block_size` goes into the part that has it; where none has, the runs are one."""
    grid = make_grid(
        BASE, {"policy": ["paging+prefix", "preallocation"], "block_size": ["16", "32"]}
    )
    texts = [grid.options(point).policy for point in grid.points()]
    assert texts == [
        "paging:block_size=16+prefix",
        "paging:block_size=32+prefix",
        "preallocation",
        "preallocation",
    ]
    _, runs = plan_of(grid, read_trace("azure-2023-conv"))
    assert len(runs) == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["windw=3"], "--set windw: no such option"),
        (["window=3"], "--set window: no such option"),  # paging has none
        (["tp"], "expected NAME=VALUES"),
        (["tp=1,1"], "a value is given twice"),
    ],
)
def test_no_grid(settings: list[str], said: str) -> None:
    given = GridOptions(model=["llama-2-7b"], gpu=["h100"])
    with pytest.raises(InputError) as caught:
        grid_of(given, settings)
    assert said in str(caught.value)
    with pytest.raises(InputError, match="--model: missing"):
        grid_of(None, [])


def test_what_has_one_value_is_no_axis() -> None:
    given = GridOptions(model=["llama-2-7b"], policy=["paging", "virtual"], tp=["2"])
    grid = grid_of(given, ["request-rate=1:2:1", "tp=4"])
    assert grid.axes == {
        "policy": ("paging", "virtual"),
        "tp": (2, 4),
        "request_rate": (1.0, 2.0),
    }
    assert grid_of(given, []).base.tp == 2


def test_a_run_is_named_by_contents_alone(tmp_path: Path) -> None:
    """A file's contents count, its place doesn't; any option does."""
    trace = read_trace("azure-2023-conv")
    digest = trace_digest(trace)

    def key(**options: Any) -> str:
        return key_of(digest, self_contained(RunOptions(**{"gpu": "h100", **options})))

    one, two = write_model(tmp_path / "a"), write_model(tmp_path / "b")
    other = write_model(tmp_path / "c", num_hidden_layers=5)
    name = {"model": str(one)}
    assert key(**name) == key(**name)
    assert key(model=str(one)) != key(model=str(other))
    moved = key(model=str(two))
    one.write_text(two.read_text())
    assert key(model=str(two)) == moved
    for changed in ({"tp": 2}, {"slo": "ttft_p99=1s"}, {"gpu": "l4"}, {"request_rate": 1.0}):
        assert key(**name, **changed) != key(**name)
    assert key_of(trace_digest(make_workload("chat", 5, 1.0)), BASE) != key_of(digest, BASE)
    assert set(settings_of(BASE)) == {*RunOptions.__dataclass_fields__}


@pytest.mark.parametrize("name", ["chat", "retrieval", "azure-2023-conv"])
def test_a_shared_trace_is_the_trace(name: str, tmp_path: Path) -> None:
    """Mapped from a file or from its bytes, without a copy: its arrays own no memory."""
    trace = read_trace(name) if "-" in name else make_workload(name, 20, 1.0)
    (tmp_path / "trace.arrow").write_bytes(shared_bytes(trace))
    for source in (tmp_path / "trace.arrow", (tmp_path / "trace.arrow").read_bytes()):
        mapped = map_shared(source)
        assert trace_digest(mapped) == trace_digest(trace)
        assert mapped.provenance == trace.provenance
        assert (mapped.prefix is None) == (trace.prefix is None)
        assert (mapped.turns is None) == (trace.turns is None)
        assert not mapped.arrival_s.flags.owndata
        assert np.array_equal(mapped.arrival_s, trace.arrival_s)


def test_a_grid_has_bounds() -> None:
    """Of its size, and of its numbers: what nobody means is refused before anything is made."""
    with pytest.raises(InputError, match="1000000000000 combinations, expected at most 1,000,000"):
        Grid(BASE, dict.fromkeys(("tp", "samples", "seed", "first"), tuple(range(1000)))).points()
    many = dict.fromkeys(("tp", "samples", "seed", "first", "replicas"), tuple(range(100_000)))
    for sample in (None, 5):
        with pytest.raises(InputError, match=r"1\.0*e\+25 combinations, expected"):
            Grid(BASE, many).points(sample)
    for name, text in (
        ("seed", str(2**63)), ("seed", "9" * 400), ("request_rate", "1e-320"),
        ("request_rate", "1e300"), ("seed", "1:9e99:1"), ("request_rate", "1:1e999999:1e999999"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=f"--set {name}=.* expected") as caught:
            read_values(name, [text])
        assert len(str(caught.value)) < 200


def test_a_grid_knows_its_size_without_being_made() -> None:
    huge = Grid(BASE, {name: tuple(range(1000)) for name in ("tp", "samples", "seed", "first")})
    assert len(huge) == 10**12
    assert len(list(huge.points(5))) == 5


def test_what_varies_is_named() -> None:
    """An option of a policy shows in the policy's text."""
    assert make_grid(BASE, {"tp": [1, 2]}).varied == ["tp"]
    assert make_grid(BASE, {"block_size": ["16", "32"], "tp": [1, 2]}).varied == ["policy", "tp"]
    both = {"policy": ["paging", "virtual"], "block_size": ["16", "32"]}
    assert make_grid(BASE, both).varied == ["policy"]
