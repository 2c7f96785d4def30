"""Experts: times by tokens and by the experts they wake."""

import csv
from pathlib import Path

import pytest

from sim.cost.kernels.experts import Experts
from sim.cost.kernels.llmservingsim import read_folder
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import find_profile, write_profile
from sim.hardware import find_device
from sim.model.geometry import Model
from sim.model.presets import find_model
from sim.plan import AS_PER_S, StepPlan
from tests.made_up import (
    GEMM_US,
    HEAD_US,
    NORM_US,
    SAMPLER_US,
    attention_us,
    write_model,
    write_profile_folder,
)
from workloads.errors import InputError

LAYERS = 4
DEVICE = find_device("custom:memory=8GiB,bandwidth=1TB/s,flops=100TFLOP/s")


def expert_us(tokens: int, activated: int) -> float:
    return 5 + tokens / 10 + 2 * activated


def folder_of_experts(folder: Path) -> Path:
    """8 experts; 1 token wakes 1 or 2 of them, 16 or more all numbers up to 8."""
    made = write_profile_folder(folder, mlp=())
    with (made / "tp1" / "moe.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["tokens", "activated_experts", "time_us"])
        for tokens in (1, 16, 64):
            for activated in (1, 2) if tokens == 1 else (1, 2, 4, 8):
                out.writerow([tokens, activated, expert_us(tokens, activated)])
    return made


def mixtral(folder: Path) -> str:
    """8 experts, two a token."""
    config = write_model(
        folder,
        model_type="mixtral",
        architectures=["MixtralForCausalLM"],
        num_local_experts=8,
        num_experts_per_tok=2,
    )
    return str(config)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return find_model(mixtral(tmp_path / "model"))


def test_even_choice_wakes_what_the_formula_says(tmp_path: Path, model: Model) -> None:
    """One token wakes its two; 32 tokens wake 8 · (1 − 0.75³²), nearly all."""
    name = mixtral(tmp_path / "again")
    profile = read_folder(folder_of_experts(tmp_path / "gpu"), name="experts", model=name)
    experts = Experts(profile.rows["moe"], model)
    assert experts.count == 8
    assert experts.activated(1) == pytest.approx(2)
    assert experts.activated(32) == pytest.approx(8 * (1 - 0.75**32))
    assert experts.at(1) == pytest.approx(expert_us(1, 2))
    woken = 8 * (1 - 0.75**32)
    assert experts.at(32) == pytest.approx(5 + 3.2 + 2 * woken)


def test_a_step_of_experts_by_hand(tmp_path: Path, model: Model) -> None:
    """From moe.csv to a file and into a step: the experts' time once a layer."""
    name = mixtral(tmp_path / "again")
    profile = read_folder(folder_of_experts(tmp_path / "gpu"), name="experts", model=name)
    write_profile(profile, tmp_path / "experts.parquet")
    table = KernelTable(model, DEVICE, find_profile(str(tmp_path / "experts.parquet")))
    size = model.kv_bytes_per_token()
    plan = StepPlan(0, 1, 32, 3200, 3200 * size, 32 * size, 0, (), (), (), ())
    experts = 5 + 3.2 + 2 * 8 * (1 - 0.75**32)
    layer = 2 * (GEMM_US + 64 / 8) + experts + 2 * NORM_US + attention_us(0, 0, 32, 100)
    expected = LAYERS * layer + HEAD_US + SAMPLER_US
    assert table.linear(plan)[0] / AS_PER_S * 1e6 == pytest.approx(expected)


def test_experts_without_times_are_refused_when_converted(tmp_path: Path) -> None:
    folder = write_profile_folder(tmp_path / "gpu")
    with pytest.raises(InputError, match=r"no moe\.csv, but .* has experts"):
        read_folder(folder, name="x", model=mixtral(tmp_path / "model"))


def test_a_dense_profile_is_not_for_a_model_of_experts(tmp_path: Path, model: Model) -> None:
    dense = str(write_model(tmp_path / "dense"))
    profile = read_folder(write_profile_folder(tmp_path / "gpu"), name="x", model=dense)
    profile.meta["intermediate_size"] = model.intermediate_size
    with pytest.raises(InputError, match="no times of experts"):
        KernelTable(model, DEVICE, profile)
