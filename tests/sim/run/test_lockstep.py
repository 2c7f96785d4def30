"""Data-parallel ranks: schedules written out by hand, and what must hold of any."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import simpy

from sim.cost.base import Plans
from sim.cost.kernels.collectives import tokens_of
from sim.cost.ranks import FixedRanks
from sim.engine.loop import Effects
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Done, Execute, StepPlan
from sim.run import replicas
from sim.run.folder import write_run
from sim.run.form import compiles, note
from sim.run.interval import interval
from sim.run.lockstep import lockstep
from sim.run.options import RunOptions
from sim.run.simulation import Run, Setup, execute, prepared
from sim.sweep.grid import Grid
from sim.sweep.question import question_of
from sim.sweep.search import Search
from tests.made_up import write_model
from workloads.errors import InputError
from workloads.schema import Provenance, Trace

ROOT = Path(__file__).parents[3]
MODEL, GPU = "qwen3-30b-a3b", "h200"


class SecondAToken(FixedRanks):
    """A step takes a second for each token of the largest batch, an idle rank's being one."""

    def together_as(self, plans: Plans) -> int:
        return max(tokens_of(plan) for plan in plans) * AS_PER_S


def trace(*rows: tuple[float, int, int]) -> Trace:
    """Rows of arrival, prompt and output."""
    arrival, prompt, output = zip(*rows, strict=True)
    said = Provenance("by hand", len(rows))
    return Trace("by hand", np.array(arrival), np.array(prompt), np.array(output), said)


def setup(requests: Trace, **options: Any) -> Setup:
    known = {"model": MODEL, "gpu": GPU, "cost": "fixed:seconds=0.1", "policy": "paging"}
    return prepared(requests, RunOptions(**{**known, **options}))


THREE = ((0.0, 5, 3), (1.0, 2, 2), (6.5, 3, 1))


@pytest.mark.parametrize(
    ("engine", "first_s", "finish_s", "steps"),
    [
        # 0 to 5: rank 0 prefills five tokens, rank 1 has nothing. The second request came at 1 and
        #   waits for the step's end.
        # 5 to 7: a decode beside a prompt of two: both ranks take two seconds.
        # 7 to 11: rank 0 decodes one and prefills three, rank 1 decodes; all are done.
        ("default", [5, 7, 11], [11, 11, 11], [[(0, 5), (5, 7), (7, 11)], [(5, 7), (7, 11)]]),
        # Planned a step ahead, what comes at 6.5 is planned at 7 and computed from 8 on:
        # 7 to 8: a decode each, planned before. 8 to 11: three tokens of prompt, rank 1 idle.
        (
            "vllm-0.32",
            [5, 7, 11],
            [8, 8, 11],
            [[(0, 5), (5, 7), (7, 8), (8, 11)], [(5, 7), (7, 8)]],
        ),
    ],
)
def test_three_requests_on_two_ranks(
    engine: str,
    first_s: list[float],
    finish_s: list[float],
    steps: list[list[tuple[int, int]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Round robin: the second request goes to rank 1, the others to rank 0."""
    monkeypatch.setattr(replicas, "ranks_cost", lambda setup: SecondAToken(1.0, "by hand"))
    log = execute(setup(trace(*THREE), data_parallel=2, engine=engine)).log
    assert log.requests["replica"].tolist() == [0, 1, 0]
    assert log.requests["first_token_s"].tolist() == first_s
    assert log.requests["finish_s"].tolist() == finish_s
    for rank, expected in enumerate(steps):
        mine = log.steps["replica"] == rank
        found = zip(log.steps["start_s"][mine], log.steps["end_s"][mine], strict=True)
        assert [(int(a), int(b)) for a, b in found] == expected


class Nobody:
    """A front at which nobody arrives."""

    busy = 0

    def has(self, rank: int) -> bool:
        return False

    def nobody_comes(self) -> bool:
        return True


def test_a_step_waits_for_the_slowest_way_to_the_host() -> None:
    """Ranks move 3 and 5 bytes at a byte a second before a step of two tokens, each over a link of
    its own: all start after 5 s and end at 7 s."""
    heard: list[Done] = []

    def engine(tokens: int, moved: int) -> Effects:
        plan = StepPlan(0, 1, tokens, 0, 0, 0, 0, (), (), (), (), moved)
        heard.append((yield Execute(plan, AS_PER_S)))

    env = simpy.Environment(initial_time=0)
    cost = SecondAToken(1.0, "by hand")
    front = cast("replicas.Front", Nobody())
    env.process(lockstep(env, [engine(2, 3), engine(1, 5)], cost, front, AS_PER_S))
    env.run()
    assert heard == [Done(7 * AS_PER_S, 1, 7 * AS_PER_S)] * 2


def test_independent_replicas_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same three without lockstep, a second a step: rank 1 starts when its request comes."""
    log = execute(setup(trace(*THREE), replicas=2, cost="fixed:seconds=1")).log
    assert log.requests["first_token_s"].tolist() == [1, 2, 7.5]
    together = execute(setup(trace(*THREE), data_parallel=2, cost="fixed:seconds=1.5")).log
    # steps end at 1.5, 3.0 and 4.5; the second request came at 1.0, within the first
    assert together.requests["first_token_s"].tolist() == [1.5, 3.0, 8.0]
    assert together.requests["finish_s"].tolist() == [4.5, 4.5, 8.0]


@pytest.mark.parametrize("engine", ["default", "vllm-0.19", "vllm-0.32"])
@pytest.mark.parametrize("memory", ["1GiB", "180MiB"])
def test_equal_loads_are_a_single_engines(engine: str, memory: str) -> None:
    """Every request twice at once, dealt out in turn: each rank does what one engine would with
    half of them, also where memory is short and requests are preempted."""
    draw = np.random.default_rng(7)
    arrival = np.sort(draw.uniform(0, 12, 40)).round(6)
    half = [
        (float(a), int(p), int(o))
        for a, p, o in zip(
            arrival, draw.integers(1, 900, 40), draw.integers(1, 60, 40), strict=True
        )
    ]
    options = {"engine": engine, "kv_cache_memory": memory}
    alone = execute(replace(setup(trace(*half), **options), fast_forward=False)).log
    both = [row for row in half for _ in range(2)]
    log = execute(setup(trace(*both), data_parallel=2, **options)).log
    assert (alone.requests["preemptions"].sum() > 0) == (memory == "180MiB")
    for rank in range(2):
        assert (log.requests["replica"][rank::2] == rank).all()
        for name, column in alone.requests.items():
            if name == "request_id":
                continue
            assert np.array_equal(log.requests[name][rank::2], column, equal_nan=True), name
        mine = log.steps["replica"] == rank
        for name in ("start_s", "end_s", "decodes", "prefill_tokens", "context_tokens"):
            assert np.array_equal(log.steps[name][mine], alone.steps[name]), name


def ranks_of(run: Run) -> range:
    return range(run.setup.replicas)


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "default"},
        {"engine": "vllm-0.32", "router": "least-loaded"},
        {"engine": "vllm-0.32", "concurrency": 9},
        {"engine": "default", "users": 5, "think_time": "2s"},
    ],
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_what_holds_of_any_run(ranks: int, options: dict[str, Any]) -> None:
    """Every token is computed once, by the rank that was given the request: of each its prompt, and
    all of its output but the last token. Two ranks' steps coincide or don't touch. Memory is whole.
    """
    given = setup("azure-2023-conv", first=60, cost=None, data_parallel=ranks, **options)
    run = execute(given)
    log = run.log
    assert run["finished"] == 60
    assert int(log.requests["output_tokens"].sum()) == int(given.trace.output_tokens.sum())
    for rank in ranks_of(run):
        mine, own = log.steps["replica"] == rank, log.requests["replica"] == rank
        steps = {name: column[mine] for name, column in log.steps.items()}
        assert own.any()
        asked = int((given.trace.prompt_tokens + given.trace.output_tokens - 1)[own].sum())
        assert int((steps["decodes"] * steps["steps"] + steps["prefill_tokens"]).sum()) == asked
    start, end = log.steps["start_s"], log.steps["end_s"]
    ends: dict[float, float] = {}
    for a, b in zip(start.tolist(), end.tolist(), strict=True):
        assert ends.setdefault(a, b) == b
    spans = sorted(ends.items())
    assert all(b <= c for (_, b), (c, _) in pairwise(spans))
    uses = ("live", "reserved", "internal", "external", "metadata", "free")
    held = sum(log.timeline[f"{use}_bytes"] for use in uses)
    assert (held == ranks * given.pool.capacity_bytes).all()


@pytest.mark.parametrize("how", ["data_parallel", "replicas"])
@pytest.mark.parametrize("engine", ["default", "vllm-0.32"])
def test_one_user_goes_from_rank_to_rank(how: str, engine: str) -> None:
    """Who is idle while another serves the only user waits for it: requests are dealt out in turn,
    each when the one before is answered, three steps of 0.1 s later."""
    requests = trace(*[(0.0, 4, 3)] * 6)
    log = execute(setup(requests, concurrency=1, engine=engine, **{how: 2})).log
    assert log.requests["replica"].tolist() == [0, 1] * 3
    assert log.requests["finish_s"] == pytest.approx(0.3 * np.arange(1, 7))


def test_experts_weights_are_divided() -> None:
    """Of Qwen3-30B-A3B 48 layers hold 128 experts of three matrices of 2,048 × 768, 2 B a weight:
    with two ranks each has room for half of them more. Everything else each has whole."""
    requests = trace(*THREE)
    alone, two = setup(requests), setup(requests, data_parallel=2)
    experts = 48 * 128 * 3 * 2048 * 768 * 2
    assert two.ledger.kv_bytes - alone.ledger.kv_bytes == experts // 2
    assert (alone.gpus, two.gpus) == (1, 2)
    assert two.capacity_bytes == 2 * two.pool.capacity_bytes


def test_the_record_says_how_many(tmp_path: Path) -> None:
    run = execute(setup(trace(*THREE), data_parallel=2, cost=None))
    write_run(run, tmp_path, "kvtwin simulate")
    record = json.loads((tmp_path / "run.json").read_text())
    assert (record["data_parallel"], record["replicas"]) == (2, 1)
    assert record["router"] == "round-robin"
    said = " ".join(record["cost"]["warnings"])
    assert "no recorded run has been held against" in said
    assert "assumed at 20 µs each" in said
    formulas = [metric.formula for metric in run.metrics_list]
    assert any("mean of 2 ranks" in formula for formula in formulas)
    assert not any("replica" in formula for formula in formulas)


def test_it_is_interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVTWIN_COMPILE", "1")
    two = setup(trace(*THREE), data_parallel=2)
    assert not compiles(two, two.cost())
    assert "several engines are interpreted" in str(note(two))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data_parallel": 0}, "--data-parallel 0: expected a whole number from 1"),
        ({"data_parallel": -1}, "--data-parallel -1: expected a whole number from 1"),
        ({"data_parallel": 2, "model": "llama-2-7b"}, "has no experts, .*expected --replicas 2"),
        ({"data_parallel": 2, "replicas": 2}, "replicas of such engines are not modelled"),
        ({"data_parallel": 2, "tp": 2}, "ranks of several GPUs are not modelled"),
        # 8 experts divide over 1, 2, 4 and 8 ranks; 128 over 2^n; 256 over at most 256
        ({"data_parallel": 3, "model": "mixtral"}, "divides mixtral's 8 experts, such as 2 or 4$"),
        ({"data_parallel": 16, "model": "mixtral"}, "divides mixtral's 8 experts, such as 8$"),
        (
            {"data_parallel": 3},
            "--data-parallel 3: .* qwen3-30b-a3b's 128 experts, such as 2 or 4$",
        ),
        ({"data_parallel": 2, "router": "session"}, "has no sessions"),
    ],
)
def test_what_is_refused(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    if options.get("model") == "mixtral":
        mixtral = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
        options = {**options, "model": str(write_model(tmp_path / "mixtral", **mixtral))}
        said = said.replace("mixtral's", ".*mixtral.*'s")
    with pytest.raises(InputError, match=said):
        execute(setup(trace(*THREE), **options))


def test_what_does_not_fit_needs_more_ranks() -> None:
    """DeepSeek-V3's 61 - 3 layers of 256 experts of three matrices of 7,168 × 2,048, a byte each:
    no half of them is in an H200's 141 GB. A rank holds no less than one of each layer's."""
    assert 58 * 256 * 3 * 7168 * 2048 / 2 > 141e9
    with pytest.raises(InputError, match="doesn't fit") as caught:
        setup(trace(*THREE), data_parallel=2, model="deepseek-v3")
    assert "a larger --gpu, a higher --data-parallel that divides its 256 experts or" in str(
        caught.value
    )
    tiny = "custom:memory=4GiB,bandwidth=1TB/s,flops=100TFLOP/s"
    with pytest.raises(InputError, match="expected a larger --gpu or fewer bytes a weight"):
        setup(trace(*THREE), data_parallel=256, model="deepseek-v3", gpu=tiny)


def test_own_cost_models_are_refused() -> None:
    class Own:
        def model(self, setup: Setup) -> FixedRanks:
            return FixedRanks(1.0, "own")

    with pytest.raises(InputError, match="says nothing of several ranks' step"):
        setup(trace(*THREE), data_parallel=2, cost=Own())


def test_no_interval_and_no_search() -> None:
    run = setup(trace(*THREE), data_parallel=2, cost=None)
    with pytest.raises(InputError, match="--interval: nobody knows how far off"):
        interval(run, {})
    for grid in (
        Grid(RunOptions(model=MODEL, gpu=GPU, slo="ttft_p99=2s", data_parallel=2), {}),
        Grid(RunOptions(model=MODEL, gpu=GPU, slo="ttft_p99=2s"), {"data_parallel": (1, 2)}),
    ):
        with pytest.raises(InputError, match=r"--data-parallel: .* expected sweep"):
            Search(grid, trace(*THREE), question_of("request_rate"))


def test_a_dense_models_ranks_are_replicas(tmp_path: Path) -> None:
    """Of one's own config.json too."""
    name = str(write_model(tmp_path / "dense"))
    assert not find_model(name).weights.experts
    with pytest.raises(InputError, match="expected --replicas 3"):
        setup(trace(*THREE), model=name, data_parallel=3)


def test_bounds_are_refused_before_the_run(tmp_path: Path) -> None:
    """As a person meets it: one line, exit code 2, and nothing was run or written."""
    command = [sys.executable, "-m", "sim.cli", "simulate", "azure-2023-conv", "--model", MODEL]
    options = ["--gpu", GPU, "--first", "3", "--data-parallel", "2", "--interval", "90"]
    result = subprocess.run(
        [*command, *options, "-o", str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert "--interval: nobody knows how far off" in result.stderr
    assert not (tmp_path / "out").exists()
