"""Runs of vLLM's CPU build, recorded with their own step times (`benchmarks/live`)."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim.measured.comparison import compare
from sim.measured.prediction import prediction
from sim.measured.prefixes import FILE, with_prefixes
from sim.measured.read import read_measured, shipped_runs
from sim.measured.run import STEPS
from sim.measured.server_log import read_server_log
from sim.run.simulation import execute
from workloads.errors import InputError

LIVE = "vllm-cpu-llama-103m"


def test_a_live_run_is_foretold_from_its_own_steps() -> None:
    """Eleven preemptions and 384 tokens found, as vLLM counted them; means within ten per cent."""
    measured = read_measured(LIVE)
    run = execute(prediction(measured))
    assert measured.preemptions == run["num_preemptions"] == 11
    assert measured.meta["prefix_cache_hit_tokens"] == run["prefix_hit_tokens"] == 384
    assert run.setup.engine.name == "vllm-0.32"
    means = [e for e in compare(measured, run) if e.name.endswith("ms_mean")]
    assert len(means) == 3
    for error in means:
        assert error.error_pct is not None
        assert abs(error.error_pct) < 10, error


def test_step_times_are_found_beside_the_record_or_named() -> None:
    measured = read_measured(LIVE)
    beside = measured.beside(STEPS)
    assert beside is not None
    named = prediction(
        replace(measured, folder=None), model=_config(measured.folder), cost=str(beside)
    )
    assert named.cost_table == prediction(measured).cost_table
    with pytest.raises(InputError, match="expected --model"):
        prediction(
            replace(measured, folder=None, meta={"vllm_version": "0.32.0"}), cost=str(beside)
        )


def _config(folder: Path | None) -> str:
    assert folder is not None
    return str(folder / "config.json")


def test_block_ids_are_of_the_blocks_that_the_server_had() -> None:
    """A client's record tells no block size: 32, as the log has it, not 16."""
    measured = read_measured(LIVE)
    assert measured.folder is not None
    bare = replace(measured, meta={})
    own = with_prefixes(bare, str(measured.folder / FILE), 32).trace.prefix
    assert own is not None
    assert own.block_tokens == 32
    with pytest.raises(InputError, match="full block of 16 tokens"):
        with_prefixes(bare, str(measured.folder / FILE))


def test_a_server_on_a_cpu_plans_nothing_ahead(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "Initializing a V1 LLM engine (v0.32.0) with config: device_config=cpu, seed=0\n"
    )
    assert read_server_log(log) == {"vllm_version": "0.32.0", "async_scheduling": False}


def test_shipped_runs_of_two_kinds_of_machine() -> None:
    assert {LIVE, "rtx-4090-llama-3.1-8b", "rtx-pro-6000-qwen3-32b"} <= set(shipped_runs())
