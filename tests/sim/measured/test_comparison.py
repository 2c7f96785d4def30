"""Prediction beside measurement: a run compared with itself, and with the two shipped ones."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from reports.load import load_runs
from sim.measured.comparison import compare, side_by_side
from sim.measured.log import measured_log
from sim.measured.prediction import prediction
from sim.measured.prefixes import FILE, with_prefixes
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.policy.paging import Paging
from sim.policy.prefix import Prefix
from sim.run.folder import write_run
from sim.run.simulation import Run, execute
from tests.made_up import write_as_measured
from workloads.errors import InputError

RTX_4090, RTX_PRO_6000 = "rtx-4090-llama-3.1-8b", "rtx-pro-6000-qwen3-32b"


def predicted(name: str, prefixes: str | None = None) -> tuple[Measured, Run]:
    measured = with_prefixes(read_measured(name), prefixes)
    gpu = "rtx-pro-6000" if name == RTX_PRO_6000 else None
    return measured, execute(prediction(measured, gpu=gpu))


def test_a_run_compared_with_itself_has_no_error(tmp_path: Path) -> None:
    """Stamps of the epoch carry 0.2 µs, so a part in a million is what a float can say."""
    measured, run = predicted(RTX_4090)
    again = read_measured(str(write_as_measured(run, tmp_path / "twin", measured.meta)))
    for error in compare(again, run):
        assert error.error_pct == pytest.approx(0, abs=1e-3), error.name
        assert error.within


@pytest.mark.parametrize("name", [RTX_4090, RTX_PRO_6000])
def test_means_within_seven_tenths_and_percentiles_within_two_per_cent(name: str) -> None:
    """With the prompts' true sharing; the aim that docs/accuracy.md states."""
    for error in compare(*predicted(name)):
        assert error.error_pct is not None
        if error.tolerance_pct is not None:
            allowed = 0.7 if error.name.endswith(("_mean", "makespan_s")) else 2.0
            assert abs(error.error_pct) <= allowed, error


def test_lengths_alone_are_not_enough() -> None:
    """A request that finds its beginning in the cache is served sooner than lengths tell."""
    true, blind = (
        {e.name: e.predicted for e in compare(*predicted(RTX_4090, prefixes))}
        for prefixes in (None, "none")
    )
    assert blind["ttft_ms_mean"] > 1.01 * true["ttft_ms_mean"]


def test_measured_means_are_those_published_with_the_runs() -> None:
    """Mean TTFT, TPOT and E2E, in seconds, computed from the stamps by another program."""
    measured, run = predicted(RTX_4090)
    by_name = {e.name: e.measured for e in compare(measured, run)}
    assert by_name["ttft_ms_mean"] == pytest.approx(65_486.3, abs=0.1)
    assert by_name["tpot_ms_mean"] == pytest.approx(32.4, abs=0.1)
    assert by_name["e2el_ms_p50"] == pytest.approx(83_423.8, abs=0.1)
    assert by_name["makespan_s"] == pytest.approx(183.5693, abs=1e-4)


def test_fast_forward_is_exact_with_kernel_times() -> None:
    """A saturated run of preemptions: the same attoseconds, every request."""
    measured = read_measured(RTX_4090)
    setup = prediction(measured, engine="vllm-0.19:kernel_overlap_s=33e-6")
    fast, single = (execute(replace(setup, fast_forward=on)) for on in (True, False))
    assert fast.log.end_s == single.log.end_s
    for name, column in fast.log.requests.items():
        np.testing.assert_array_equal(column, single.log.requests[name], err_msg=name)
    assert len(fast.log.steps["steps"]) < len(single.log.steps["steps"])


def test_a_run_of_vllm_0_19_uses_the_oldest_free_block_first() -> None:
    """vLLM 0.32 takes blocks without contents before (both: v1/core/block_pool.py, free_blocks)."""
    measured = read_measured(RTX_4090)
    oldest, blank = (
        prediction(measured, engine=engine).policy
        for engine in ("vllm-0.19:padded_to=0", "vllm-0.19:oldest_first=false")
    )
    assert oldest == Paging(16) + Prefix(reuse="oldest") == prediction(measured).policy
    assert blank == prediction(measured, engine="vllm-0.32").policy == Paging(16) + Prefix("blank")


def test_the_engine_keeps_a_block_to_itself() -> None:
    setup = prediction(read_measured(RTX_4090))
    assert setup.pool.capacity_bytes == 2587 * 2_097_152
    assert sum(line.size_bytes for line in setup.ledger.lines) == setup.device.memory_bytes


def test_a_measured_run_in_the_tables_of_a_simulated_one() -> None:
    measured = read_measured(RTX_4090)
    log = measured_log(measured, 1000)
    assert log.end_s == pytest.approx(183.5693, abs=1e-4)
    line = log.timeline
    memory = sum(line[f"{use}_bytes"] for use in ("live", "reserved", "internal", "free"))
    assert (memory == 1000).all()


@pytest.mark.parametrize(("name", "found"), [(RTX_4090, 19_520), (RTX_PRO_6000, 20_448)])
def test_shared_prompt_tokens_are_those_of_the_published_workload(name: str, found: int) -> None:
    """32 of 300 prompts begin as an earlier one, counted from the text by another program."""
    trace = read_measured(name).trace
    blocks = trace.prefix
    assert blocks is not None
    seen: set[int] = set()
    tokens = sharing = 0
    for start, end in zip(blocks.offsets[:-1], blocks.offsets[1:], strict=True):
        ids = blocks.ids[start:end].tolist()
        leading = next((i for i, block in enumerate(ids) if block not in seen), len(ids))
        sharing += leading > 0
        tokens += 16 * leading
        seen.update(ids)
    assert (sharing, tokens) == (32, found)


def test_ids_come_in_the_order_of_the_record(tmp_path: Path) -> None:
    """Two prompts of 40 and 20 tokens, recorded in the other order than they arrived."""
    (tmp_path / "timeseries.csv").write_text("t,running,waiting,kv_cache_pct\n1,1,0,1\n")
    row = '{"input_toks": %d, "output_toks": 2, "arrival_time": %d, "queued_ts": %d,'
    row += ' "first_token_ts": %d, "last_token_ts": 9}\n'
    lines = [row % (40, 2, 2, 3), row % (20, 1, 1, 2)]
    (tmp_path / "requests.jsonl").write_text("".join(lines))
    (tmp_path / FILE).write_text('{"hash_ids": [5, 6]}\n{"hash_ids": [5]}\n')
    blocks = read_measured(str(tmp_path)).trace.prefix
    assert blocks is not None
    assert blocks.offsets.tolist() == [0, 2, 5]
    assert blocks.ids[[0, 2, 3]].tolist() == [5, 5, 6]
    assert len(set(blocks.ids.tolist())) == 4  # partial blocks are nobody else's


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"hash_ids": [0]}\n', "1 lines, expected one for each of 300"),
        ('{"hash_ids": ["a"]}\n' * 300, "line 1: expected"),
        ('{"hash_ids": [0]}\n' * 300, "line 1: 1 hash_ids, expected 147, one for each full block"),
    ],
)
def test_broken_ids_are_one_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "ids.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        with_prefixes(read_measured(RTX_4090), str(tmp_path / "ids.jsonl"))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("requests.jsonl", '{"input_toks": 1, "output_toks": 1, "arrival_time": 1}\n', "queued_ts"),
        ("timeseries.csv", "t,running\n1,2\n", "timeseries.csv: no column 'waiting'"),
        ("meta.json", "{", "meta.json: not JSON"),
    ],
)
def test_a_broken_run_is_one_line(tmp_path: Path, file: str, text: str, message: str) -> None:
    _, run = predicted(RTX_4090)
    folder = write_as_measured(run, tmp_path / "run", {})
    (folder / file).write_text(text)
    with pytest.raises(InputError, match=message):
        read_measured(str(folder))


def test_what_the_run_does_not_say_must_be_given() -> None:
    measured = read_measured(RTX_PRO_6000)
    silent = {key: value for key, value in measured.meta.items() if key != "hardware"}
    with pytest.raises(InputError, match="expected --gpu"):
        prediction(replace(measured, meta=silent))


def test_a_run_that_does_not_fit_is_one_line() -> None:
    """A context limit below its longest request: some would be cut, so nothing is compared."""
    measured = read_measured(RTX_4090)
    options = {**measured.engine_options, "max_model_len": 1000}
    small = replace(measured, meta={**measured.meta, "engine_kwargs": options})
    with pytest.raises(InputError, match="don't fit the predicted engine whole"):
        compare(small, execute(prediction(small)))


def test_means_of_the_series_are_sampled_as_the_recorder_did() -> None:
    """The recorder's own mean of running requests is 32.3; the model reports at its seconds."""
    measured, run = predicted(RTX_4090)
    real, guess = side_by_side(measured, run)
    assert (guess.log.timeline["time_s"] == real.log.timeline["time_s"]).all()
    assert measured.series["running"].mean() == pytest.approx(32.3043, abs=1e-4)
    assert guess.log.timeline["running"].max() <= 256


def metrics_of(name: str) -> dict[str, float | None]:
    real = side_by_side(*predicted(name))[0]
    return {metric.name: metric.value for metric in real.metrics_list}


def test_kv_that_an_engine_logs_is_used_and_not_live() -> None:
    """timeseries.csv has a share in use, once a second; nobody tells what part of it is live."""
    found = metrics_of(RTX_4090)
    series = read_measured(RTX_4090).series
    logged = series["kv_cache_pct"][series["running"] > 0].mean()
    assert found["kv_cache_usage_perc"] == pytest.approx(logged, abs=1e-6)
    for name in ("kv_live_share_mean", "kv_live_of_used_mean", "kv_used_peak_bytes", "steps"):
        assert found[name] is None, name
    assert found["num_preemptions"] is None  # no count in its meta.json


def test_counts_of_the_engine_are_in_the_metrics_and_read_back(tmp_path: Path) -> None:
    """11 preemptions and 384 tokens found: meta.json of the run."""
    measured = read_measured("vllm-cpu-llama-103m")
    real = side_by_side(measured, execute(prediction(measured)))[0]
    write_run(real, tmp_path, "a test")
    (loaded,) = load_runs([tmp_path])
    for found in (real.__getitem__, loaded.value):
        assert found("num_preemptions") == 11
        assert found("prefix_hit_tokens") == 384
        for name in ("recomputed_tokens", "running_mean", "kv_cache_usage_perc"):
            assert found(name) is None, name
