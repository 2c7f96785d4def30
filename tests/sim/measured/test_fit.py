"""Fitting: what was put into a run comes out of it again."""

from dataclasses import replace
from pathlib import Path

import pytest

from sim.commands.fit import fitted_by_default
from sim.cost.kernels.llmservingsim import read_folder
from sim.measured.fit import fit, parameter
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.run.simulation import Setup, execute
from tests.made_up import write_as_measured, write_model, write_profile_folder
from workloads.errors import InputError

GPU = "custom:memory=2GiB,bandwidth=1TB/s,flops=100TFLOP/s"


def test_an_overhead_put_in_is_found_again(tmp_path: Path) -> None:
    """A run of an engine with 300 µs of host work a step, replayed by one that knows of none."""
    config = str(write_model(tmp_path / "model"))
    profile = read_folder(write_profile_folder(tmp_path / "gpu"), name="made-up", model=config)
    shipped = read_measured("rtx-4090-llama-3.1-8b")
    few = replace(
        shipped,
        trace=replace(
            shipped.trace, prompt_tokens=shipped.trace.prompt_tokens // 4 + 1, prefix=None
        ),
        meta={"engine_kwargs": {"max_model_len": 4096}},
    )

    def with_engine(spec: str) -> Setup:
        return prediction(few, model=config, gpu=GPU, profile=profile, engine=spec)

    truth = execute(with_engine("vllm-0.19:host_overhead_s=3e-4"))
    measured = read_measured(str(write_as_measured(truth, tmp_path / "run", few.meta)))
    (found,), _ = fit(measured, with_engine("vllm-0.19"), ["host_overhead_s"])
    assert found.start == 0
    assert found.value == pytest.approx(3e-4, rel=0.01)
    assert found.half_width < 3e-5


def test_what_cannot_be_fitted_is_one_line() -> None:
    setup = prediction(read_measured("rtx-4090-llama-3.1-8b"))
    with pytest.raises(InputError, match="not used with --tp 1"):
        parameter(setup, "all_reduce_large_latency")
    with pytest.raises(InputError, match="expected one of kernel_time, kernel_overlap_s"):
        parameter(setup, "luck")
    with pytest.raises(InputError, match="expected --profile"):
        parameter(replace(setup, profile=None), "host_overhead_s")


def test_what_is_fitted_by_default_can_be() -> None:
    """The shipped profile of two GPUs has a table of their sums: nothing of it can be fitted."""
    for name in ("rtx-pro-6000-qwen3-32b", "rtx-4090-llama-3.1-8b"):
        setup = prediction(read_measured(name))
        assert fitted_by_default(setup) == ["host_overhead_s"]
        assert parameter(setup, "host_overhead_s") >= 0
    setup = prediction(read_measured("rtx-pro-6000-qwen3-32b"))
    assert setup.profile is not None
    rows = {k: v for k, v in setup.profile.rows.items() if k != "all_reduce"}
    bare = replace(setup, profile=replace(setup.profile, rows=rows))
    names = fitted_by_default(bare)
    assert names == ["all_reduce_large_latency", "all_reduce_large_bandwidth"]
    assert all(parameter(bare, each) > 0 for each in names)
