"""What a measured server was started with: told by whom, honoured how, refused when unmodelled."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.commands.server_flags import ServerFlags
from sim.engine.limits import Limits
from sim.measured.comparison import compare
from sim.measured.options import server_options
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.measured.run import Measured
from sim.measured.server_log import read_server_log
from sim.run.simulation import execute
from tests.made_up import write_as_measured, write_model
from workloads.errors import InputError
from workloads.transform import first

ROOT = Path(__file__).parents[3]
RTX_4090, RTX_PRO_6000 = "rtx-4090-llama-3.1-8b", "rtx-pro-6000-qwen3-32b"

LOG = """\
INFO 01-02 03:04:05 [utils.py:253] non-default args: {'model': 'Qwen/Qwen3-32B', \
'max_model_len': 8192, 'tensor_parallel_size': 2, 'max_num_seqs': 96}
INFO 01-02 03:04:06 [scheduler.py:231] Chunked prefill is enabled with max_num_batched_tokens=4096.
(EngineCore pid=9) INFO 01-02 03:04:07 [core.py:97] Initializing a V1 LLM engine (v0.19.0) with \
config: model='Qwen/Qwen3-32B', speculative_config=None, tokenizer='Qwen/Qwen3-32B', \
dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=2, pipeline_parallel_size=1, \
data_parallel_size=1, quantization=None, enforce_eager=False, kv_cache_dtype=auto, \
enable_prefix_caching=False, enable_chunked_prefill=True, compilation_config={'mode': 3}
(EngineCore pid=9) INFO 01-02 03:04:30 [kv_cache_utils.py:1304] GPU KV cache size: 64,016 tokens
"""


def told(name: str = RTX_4090, **meta: Any) -> Measured:
    """A shipped run whose server was started with other options."""
    measured = read_measured(name)
    options = {**measured.engine_options, **meta}
    return replace(measured, meta={**measured.meta, "engine_kwargs": options})


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"data_parallel_size": 2}, "data_parallel_size 2, and several engines"),
        ({"enable_expert_parallel": True}, "enable_expert_parallel True, and experts spread"),
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size 2, and layers spread"),
        ({"speculative_config": {"method": "eagle"}}, "speculative decoding are not modelled"),
        ({"num_speculative_tokens": 3}, "num_speculative_tokens 3"),
        ({"quantization": "fp8"}, "quantization fp8"),
        ({"enable_chunked_prefill": False}, "chunked prefill is off"),
        ({"scheduling_policy": "priority"}, "scheduling policy priority"),
        ({"dtype": "float32"}, "meta.json says dtype float32 of 4 B, but llama-3.1-8b is in types"),
        ({"dtype": "int3"}, "meta.json says dtype int3; expected one of float32, float16"),
        ({"max_num_partial_prefills": 2}, "max_num_partial_prefills 2"),
        ({"ubatch_size": 2}, "ubatch_size 2, and batches cut in two"),
        ({"enable_eplb": True}, "enable_eplb True"),
        ({"scheduler_cls": "mine.Scheduler"}, "scheduler_cls mine.Scheduler"),
        ({"kv_cache_dtype_skip_layers": ["0"]}, "kv_cache_dtype_skip_layers"),
        ({"kv_sharing_fast_prefill": True}, "kv_sharing_fast_prefill True"),
        ({"data_parallel_size": "two"}, "is 'two', expected a whole number"),
    ],
    ids=str,
)
def test_a_server_that_is_not_modelled_is_refused_in_a_line(
    meta: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as error:
        prediction(told(**meta))
    assert "\n" not in str(error.value)


def test_a_version_that_is_not_known_is_the_record_s_word() -> None:
    measured = read_measured(RTX_4090)
    old = replace(measured, meta={**measured.meta, "vllm_version": "0.5.0"})
    with pytest.raises(InputError, match=r"meta\.json says vllm_version 0\.5\.0, whose rules"):
        prediction(old)


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "torch.float16", "half"])
def test_16_bits_by_any_name_are_the_model_s_own(dtype: str) -> None:
    assert prediction(told(dtype=dtype)).model.dtype_bytes == 2


def test_a_checkpoint_in_32_bits_is_what_the_server_made_of_it(tmp_path: Path) -> None:
    """vLLM loads one in 16 bits unless told float32: 2 B, or 4, an element."""
    config = write_model(tmp_path / "model", torch_dtype="float32")
    bare = replace(read_measured(RTX_4090), meta={"vllm_version": "0.19.0"})
    for dtype, size in (({}, 2), ({"dtype": "bfloat16"}, 2), ({"dtype": "float32"}, 4)):
        one = replace(bare, meta={**bare.meta, "engine_kwargs": dtype})
        setup = prediction(one, model=str(config), gpu="rtx-4090", cost="roofline")
        assert setup.model.dtype_bytes == size


def test_what_auto_was_resolved_to_is_taken() -> None:
    measured = read_measured(RTX_4090)
    resolved = {"model_config": {"dtype": "torch.float32"}, "cache_config": {"cache_dtype": "fp8"}}
    auto = {"engine_kwargs": {"dtype": "auto", "kv_cache_dtype": "auto"}}
    options = server_options(
        replace(measured, meta={**measured.meta, "resolved_config": resolved, **auto})
    )
    assert (options["dtype"], options["kv_cache_dtype"]) == ("torch.float32", "fp8")


@pytest.mark.parametrize(
    ("graphs", "eager", "engine", "padded_to"),
    [
        (512, False, None, 512),
        (256, False, None, 256),
        (256, True, None, 0),
        (256, False, "vllm-0.19:padded_to=128", 128),
    ],
)
def test_graphs_are_captured_up_to_what_the_server_says(
    graphs: int, eager: bool, engine: str | None, padded_to: int
) -> None:
    measured = told(enforce_eager=eager)
    resolved = {"compilation_config": {"max_cudagraph_capture_size": graphs}}
    one = replace(measured, meta={**measured.meta, "resolved_config": resolved})
    assert prediction(one, engine=engine).engine.kernels.padded_to == padded_to


def test_windows_share_no_memory_where_the_server_switched_it_off() -> None:
    assert prediction(told(), engine="vllm-0.32").engine.window_groups
    off = prediction(told(disable_hybrid_kv_cache_manager=True), engine="vllm-0.32")
    assert not off.engine.window_groups


def test_memory_and_limits_of_a_step_by_their_other_names() -> None:
    """1 GiB of KV without a count of blocks; 512 tokens scheduled of a buffer of 2,048."""
    measured = told(max_num_scheduled_tokens=512)
    meta = {k: v for k, v in measured.meta.items() if k != "resolved_config"}
    meta["kv_cache"] = {"block_size": 16, "kv_cache_memory_bytes": 1 << 30}
    setup = prediction(replace(measured, meta=meta))
    assert setup.limits.max_num_batched_tokens == 512
    assert setup.ledger.kv_bytes == (1 << 30) - 16 * 131_072  # a block is kept back
    meta["kv_cache"] = {"block_size": 16, "num_gpu_blocks_override": 101}
    blocks = prediction(replace(measured, meta=meta)).pool
    assert blocks.capacity_bytes == 100 * 16 * blocks.token_bytes  # one is kept back


def test_a_run_of_two_ranks_is_refused_by_the_command(tmp_path: Path) -> None:
    """As a person meets it: a folder whose meta.json says so, exit code 2, one line."""
    shipped = ROOT / "sim/measured/runs" / RTX_4090
    folder = tmp_path / "run"
    folder.mkdir()
    for file in ("requests.jsonl", "timeseries.csv"):
        (folder / file).write_text((shipped / file).read_text())
    meta = json.loads((shipped / "meta.json").read_text())
    meta["engine_kwargs"]["data_parallel_size"] = 2
    (folder / "meta.json").write_text(json.dumps(meta))
    result = subprocess.run(
        [sys.executable, "-m", "sim.cli", "compare-run", str(folder)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "data_parallel_size 2" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_start_up_log_tells_what_the_record_does_not(tmp_path: Path) -> None:
    """64,016 tokens are 4,001 blocks of 16; options that differ from defaults go first."""
    log = tmp_path / "server.log"
    log.write_text(LOG)
    options = ServerFlags(server_log=log, max_num_seqs=32).options(read_measured(RTX_PRO_6000))
    assert options["num_gpu_blocks"] == 4001
    assert options["max_num_batched_tokens"] == 4096
    assert options["max_num_seqs"] == 32
    assert options.origins["max_num_seqs"] == "the command line"
    assert options.assumptions(Limits()) == []
    setup = prediction(read_measured(RTX_PRO_6000), options=options)
    assert setup.limits.max_num_seqs == 32
    assert setup.limits.max_num_batched_tokens == 4096
    assert setup.limits.max_model_len == 8192
    assert not setup.engine.prefix_caching
    assert setup.pool.capacity_bytes == 4000 * 16 * setup.pool.token_bytes  # one is kept back


def test_a_log_of_another_program_is_one_line(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("listening on port 80\n")
    with pytest.raises(InputError, match="none of vLLM's start-up lines"):
        read_server_log(log)
    with pytest.raises(InputError, match="No such file"):
        read_server_log(tmp_path / "absent.log")


def test_what_nobody_tells_is_said() -> None:
    bare = replace(read_measured(RTX_PRO_6000), meta={"model": "Qwen/Qwen3-32B"})
    assert server_options(bare).assumptions(Limits()) == [
        "max_num_seqs 256",
        "max_num_batched_tokens 2,048",
        "KV blocks by the memory ledger",
        "max_model_len of the model",
        "prefix caching as the engine's default",
    ]


def test_without_a_gpu_s_name_the_profile_s_is_taken() -> None:
    measured = read_measured(RTX_PRO_6000)
    unnamed = {key: value for key, value in measured.meta.items() if key != "hardware"}
    setup = prediction(replace(measured, meta=unnamed), profile="rtx-pro-6000-qwen3-32b-tp2")
    assert setup.device.name == "rtx-pro-6000"


@pytest.mark.parametrize(
    ("options", "profile", "message"),
    [
        ({"kv_cache_dtype": "fp8"}, None, r"KV cache of 16 bits \(auto\), not 8 \(fp8\)"),
        ({"tensor_parallel_size": 1}, "rtx-pro-6000-qwen3-32b-tp2", "measured for --tp 2, not 1"),
        (
            {"model": "Qwen/Qwen3-4B"},
            "rtx-pro-6000-qwen3-32b-tp2",
            "hidden_size 5120, but qwen3-4b",
        ),
    ],
)
def test_a_profile_of_something_else_is_refused_in_a_line(
    options: dict[str, Any], profile: str | None, message: str
) -> None:
    measured = told(RTX_PRO_6000, **options)
    with pytest.raises(InputError, match=message) as error:
        prediction(measured, gpu="rtx-pro-6000", profile=profile)
    assert "\n" not in str(error.value)


def test_a_run_without_a_time_series_has_none(tmp_path: Path) -> None:
    row = '{"input_toks": 4, "output_toks": 2, "arrival_time": 1, "queued_ts": 1,'
    row += ' "first_token_ts": 2, "last_token_ts": 3}\n'
    (tmp_path / "requests.jsonl").write_text(row)
    assert len(read_measured(str(tmp_path)).series["running"]) == 0


def test_requests_in_flight_are_replayed_as_a_closed_loop(tmp_path: Path) -> None:
    """Four in flight: a run of that kind, recorded, is predicted without error; and no request is
    sent before one of the four before it is answered."""
    measured = read_measured(RTX_4090)
    few = replace(measured, trace=first(measured.trace, 40))
    options = ServerFlags(max_concurrency=4).options(few)
    run = execute(prediction(few, options=options))
    sent, done = run.log.requests["arrival_s"], run.log.requests["finish_s"]
    assert (sent[:4] == 0).all()
    for i in range(4, 40):
        assert ((sent <= sent[i]) & (done > sent[i])).sum() <= 4
    meta = {**few.meta, "num_requests": 40}
    again = read_measured(str(write_as_measured(run, tmp_path / "run", meta)))
    replayed = execute(prediction(again, options=ServerFlags(max_concurrency=4).options(again)))
    for error in compare(again, replayed):
        assert (error.error_pct or 0) == pytest.approx(0, abs=1e-3), error.name
