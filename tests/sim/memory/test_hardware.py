"""Devices by name and by numbers."""

import pytest

from sim.hardware import DEVICES, device_called, find_device
from sim.units import gib, parse_bytes
from workloads.errors import InputError


def test_every_device_has_plausible_numbers_and_sources() -> None:
    for name, device in DEVICES.items():
        assert device.name == name
        assert 14 * 2**30 < device.memory_bytes < 300 * 2**30
        # decode is bound by memory: tens to hundreds of operations a byte on all of them
        assert 30 < device.flops_per_s / device.bandwidth_bytes_per_s < 500
        assert device.source
        assert device.memory_source


def test_memory_is_what_the_driver_reports() -> None:
    assert find_device("RTX-4090").memory_bytes == 25_250_627_584  # public vLLM 0.19 run
    assert gib(find_device("rtx-3090").memory_bytes) == "23.58 GiB"  # public vLLM log


def test_custom() -> None:
    device = find_device("custom:memory=48GiB,bandwidth=1.2TB/s,flops=200TFLOP/s")
    assert device.memory_bytes == 48 * 2**30
    assert device.bandwidth_bytes_per_s == 1_200_000_000_000
    assert device.flops_per_s == 200 * 10**12


@pytest.mark.parametrize(
    "name",
    ["H20", "h800", "a800", "l20", "rtx-5090", "RTX-A6000", "b300", "gb200", "t4", "h100-nvl",
     "mi325x", "v100-32gb", "nvidia-h200"],
)  # fmt: skip
def test_names_that_people_ask_for(name: str) -> None:
    assert find_device(name).memory_bytes > 0


def test_drivers_names() -> None:
    for reported, name in (("NVIDIA H100 NVL", "h100-nvl"), ("NVIDIA H100 80GB HBM3", "h100")):
        device = device_called(reported)
        assert device is not None
        assert device.name == name


def test_memory_alone_is_enough_to_size() -> None:
    assert find_device("custom:memory=96GiB", memory_alone=True).memory_bytes == 96 * 2**30
    with pytest.raises(InputError, match="bandwidth is missing"):
        find_device("custom:memory=96GiB")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rtx-4900", "did you mean 'rtx-4090'"),
        ("a100", "it may be a100-40gb or a100-80gb "),
        ("H100-80GB", "it may be h100 "),
        ("rtx", "it may be rtx-3090 or rtx-4090 or"),
        ("tpu", "no such device"),
        ("custom:memory=48,bandwidth=1TB/s,flops=1TFLOP/s", "memory=48: expected a number and a"),
        ("custom:memory=48GiB,bandwidth=1TB/s", "flops is missing"),
        ("custom:memory=0GB,bandwidth=1TB/s,flops=1TFLOP/s", "expected more than 0"),
        ("custom:memroy=48GiB", "no number 'memroy'; did you mean 'memory'"),
        ("custom:", "memory is missing"),
        ("custom:memory=48GiB,memory=40GiB,bandwidth=1TB/s,flops=1TFLOP/s", "memory is given twi"),
    ],
)
def test_faults(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_device(spec)


def test_gb_is_not_gib() -> None:
    assert parse_bytes("14GB", "x") == 14_000_000_000
    assert parse_bytes("14 gib", "x") == 14 * 2**30
    assert parse_bytes("3.81GiB", "x") == 4_090_956_349  # 3.81 · 2^30 = 4,090,956,349.44
    for wrong in ("14", "GB", "-1GB", "1e3GB", "14 Gib/s", ""):
        with pytest.raises(InputError, match="expected a number and a unit"):
            parse_bytes(wrong, "x")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("H100-80GB", "it may be h100 "),
        ("a100", "it may be a100-40gb or a100-80gb "),
        ("v100", "it may be v100-16gb or v100-32gb "),
    ],
)
def test_a_name_of_the_driver_or_of_a_family_names_its_devices(name: str, hint: str) -> None:
    with pytest.raises(InputError) as raised:
        find_device(name)
    assert hint in str(raised.value)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA H200", "h200"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-16gb"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_names_as_nvidia_smi_prints_them(name: str, device: str) -> None:
    assert find_device(name).name == device


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA GeForce RTX 4090 Laptop GPU", "RTX 4090 Laptop GPU", "GH200", "NVIDIA GH200 480GB",
        "RTX 6000 Ada", "NVIDIA RTX 6000 Ada Generation", "NVIDIA A10", "a10", "L40", "H100 PCIe",
        "NVIDIA H100 PCIe", "NVIDIA A100 80GB PCIe", "NVIDIA GeForce RTX 3090 Ti",
    ],
)  # fmt: skip
def test_no_other_card_stands_for_one_that_is_not_known(name: str) -> None:
    with pytest.raises(InputError, match="none of the known ones is that card"):
        find_device(name)
    assert device_called(name) is None
