"""Accelerators: memory, bandwidth and arithmetic, each number with its source."""

from dataclasses import dataclass

from sim.units import BYTES, BYTES_PER_S, FLOPS_PER_S, parse_quantity
from workloads.errors import InputError
from workloads.spec import key_values, suggestion

PCIE_3 = 16 * 10**9  # bytes/s of 16 lanes, one direction (PCI-SIG, 8 GT/s)
PCIE_4 = 32 * 10**9  # bytes/s of 16 lanes, one direction (PCI-SIG, 16 GT/s)
PCIE_5 = 64 * 10**9  # 32 GT/s


REPORTED = "as PyTorch reports it in GiB to two decimals; drivers differ in the last ones"

NOMINAL = "{} on the datasheet, less what drivers and ECC usually keep; give custom: for your own"
AS_ITS_SIBLING = "taken for that of the device it is a variant of; give custom: for your own"


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator. Peak figures: what kernels reach is the cost model's concern."""

    name: str
    memory_bytes: int  # as the driver reports it to programs: less than what the box says
    bandwidth_bytes_per_s: int  # of device memory
    flops_per_s: int  # 16-bit dense matmul, accumulating in 32 bits
    host_bytes_per_s: int  # to host memory, one direction
    peer_bytes_per_s: int  # to other devices together, one direction
    source: str  # of the rates
    memory_source: str

    @property
    def memory_note(self) -> str:
        """What is doubtful about `memory_bytes`; empty where it was reported or given."""
        told = self.memory_source.startswith((REPORTED, "public", "--gpu"))
        return "" if told else self.memory_source


def _device(
    name: str,
    memory_gib: str,
    gb_per_s: int,
    tflop_per_s: float,
    host: int,
    peer: int,
    source: str,
    memory_source: str,
) -> Device:
    memory = parse_quantity(f"{memory_gib}GiB", BYTES, name)
    rate, flops = gb_per_s * 10**9, int(tflop_per_s * 10**12)
    return Device(name, memory, rate, flops, host, peer, source, memory_source)


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        _device(
            "a100-40gb", "39.50", 1555, 312, PCIE_4, 300 * 10**9,
            "NVIDIA A100 datasheet (SXM 40 GB)", REPORTED,
        ),
        _device(
            "a100-80gb", "79.15", 2039, 312, PCIE_4, 300 * 10**9,
            "NVIDIA A100 datasheet (SXM 80 GB)", REPORTED,
        ),
        _device(
            "h100", "79.11", 3350, 989.4, PCIE_5, 450 * 10**9,
            "NVIDIA H100 datasheet (SXM), half the figure with sparsity", REPORTED,
        ),
        _device(
            "h200", "139.72", 4800, 989.4, PCIE_5, 450 * 10**9,
            "NVIDIA H200 datasheet (SXM), half the figure with sparsity", REPORTED,
        ),
        _device(
            "b200", "178.35", 8000, 2250, PCIE_5, 900 * 10**9,
            "NVIDIA HGX B200 datasheet per GPU, half the figure with sparsity", REPORTED,
        ),
        _device(
            "l4", "22.03", 300, 121, PCIE_4, PCIE_4,
            "NVIDIA L4 datasheet, half the figure with sparsity", REPORTED,
        ),
        _device(
            "a10g", "22.06", 600, 70, PCIE_4, PCIE_4,
            "NVIDIA A10G datasheet", REPORTED,
        ),
        _device(
            "l40s", "44.40", 864, 362, PCIE_4, PCIE_4,
            "NVIDIA L40S datasheet, dense", REPORTED,
        ),
        _device(
            "rtx-3090", "23.58", 936, 71, PCIE_4, PCIE_4,
            "NVIDIA GA102 whitepaper (FP16, FP32 accumulate)", "public vLLM log: 23.58 GiB",
        ),
        Device(
            "rtx-4090", 25_250_627_584, 1008 * 10**9, 165_200_000_000_000, PCIE_4, PCIE_4,
            "NVIDIA Ada whitepaper (FP16, FP32 accumulate)", "public vLLM 0.19 run",
        ),
        _device(
            "rtx-pro-6000", "94.97", 1792, 503.8, PCIE_5, PCIE_5,
            "NVIDIA RTX Blackwell PRO whitepaper (FP16, FP32 accumulate, dense)", REPORTED,
        ),
        _device(
            "mi300x", "191.98", 5300, 1307.4, PCIE_5, 448 * 10**9,
            "AMD MI300X datasheet, dense", REPORTED,
        ),
        _device(
            "a800-80gb", "79.15", 2039, 312, PCIE_4, 200 * 10**9,
            "NVIDIA A800 datasheet (SXM 80 GB): A100 with 400 GB/s of NVLink", AS_ITS_SIBLING,
        ),
        _device(
            "h800", "79.11", 3350, 989.4, PCIE_5, 200 * 10**9,
            "NVIDIA H800 datasheet (SXM): H100 with 400 GB/s of NVLink", AS_ITS_SIBLING,
        ),
        _device(
            "h100-nvl", "93.10", 3938, 835.5, PCIE_5, 300 * 10**9,
            "NVIDIA H100 NVL datasheet, half the figure with sparsity", NOMINAL.format("94 GB"),
        ),
        _device(
            "h20", "95.00", 4000, 148, PCIE_5, 450 * 10**9,
            "NVIDIA H20 datasheet, dense", NOMINAL.format("96 GB"),
        ),
        _device(
            "b300", "267.00", 8000, 2250, PCIE_5, 900 * 10**9,
            "NVIDIA HGX B300 datasheet per GPU, half the figure with sparsity",
            NOMINAL.format("288 GB, of which 270 GB are offered"),
        ),
        _device(
            "gb200", "184.00", 8000, 2500, 450 * 10**9, 900 * 10**9,
            "NVIDIA GB200 NVL72 datasheet per GPU, half the figure with sparsity",
            NOMINAL.format("186 GB"),
        ),
        _device(
            "t4", "14.56", 320, 65, PCIE_3, PCIE_3,
            "NVIDIA T4 datasheet", "public PyTorch logs: 14.56 and 14.58 GiB",
        ),
        _device(
            "v100-16gb", "15.77", 900, 125, PCIE_3, 150 * 10**9,
            "NVIDIA V100 datasheet (SXM2)", NOMINAL.format("16 GB"),
        ),
        _device(
            "v100-32gb", "31.73", 900, 125, PCIE_3, 150 * 10**9,
            "NVIDIA V100 datasheet (SXM2)", NOMINAL.format("32 GB"),
        ),
        _device(
            "a6000", "47.50", 768, 155, PCIE_4, 56 * 10**9,
            "NVIDIA RTX A6000 datasheet, half the figure with sparsity", NOMINAL.format("48 GB"),
        ),
        _device(
            "l20", "44.40", 864, 119.5, PCIE_4, PCIE_4,
            "NVIDIA L20 datasheet, dense", AS_ITS_SIBLING,
        ),
        _device(
            "rtx-5090", "31.36", 1792, 209.5, PCIE_5, PCIE_5,
            "NVIDIA RTX Blackwell whitepaper (FP16, FP32 accumulate, dense)",
            "public PyTorch logs: 31.36 and 31.37 GiB",
        ),
        _device(
            "mi325x", "255.98", 6000, 1307.4, PCIE_5, 448 * 10**9,
            "AMD MI325X datasheet, dense", NOMINAL.format("256 GB"),
        ),
    )
}  # fmt: skip

LARGEST_BYTES = 2**53  # so that sums of sizes stay whole in 64 bits, and are exact as floats
LARGEST_RATE = 10**18  # a byte or an operation an attosecond, the clock's unit

CUSTOM_UNITS = {
    "memory": BYTES,
    "bandwidth": BYTES_PER_S,
    "flops": FLOPS_PER_S,
    "host": BYTES_PER_S,
    "peer": BYTES_PER_S,
}


def find_device(name: str, *, memory_alone: bool = False) -> Device:
    """The device of that name, or one given by numbers with units:
    `custom:memory=48GiB,bandwidth=1.2TB/s,flops=200TFLOP/s[,host=32GB/s][,peer=300GB/s]`.
    With `memory_alone` the rates may be left out, and are 0: enough to size, not to simulate.

    Raises InputError with the closest name, or naming the number at fault.
    """
    if name.startswith("custom:"):
        return _custom(name, memory_alone)
    lower = name.lower().removeprefix("nvidia-")
    if lower in DEVICES:
        return DEVICES[lower]
    words = lower.replace("_", "-").replace(" ", "-")
    if words.removeprefix("rtx-") in DEVICES:
        return DEVICES[words.removeprefix("rtx-")]
    if (reported := _driver_name(words)) is not None:
        return reported
    like = [one for one in DEVICES if f"{one}-".startswith(f"{words}-")]
    if not OTHERS.intersection(words.split("-")):
        like += [one for one in DEVICES if words.startswith(f"{one}-")]
    if not like and (reported := device_called(words)) is not None:
        like = [reported.name]
    if len(like) == 1 and like[0].startswith(words):
        return DEVICES[like[0]]
    hint = f"it may be {' or '.join(like)}" if like else suggestion(lower, DEVICES)
    if not like and OTHERS.intersection(words.split("-")):
        hint = "none of the known ones is that card"
    raise InputError(
        f"--gpu {name}: no such device; {hint} "
        "(or custom:memory=48GiB,bandwidth=1.2TB/s,flops=200TFLOP/s)"
    )


OTHERS = frozenset(
    {
        "a2", "a10", "a16", "a30", "a40", "a4000", "a4500", "a5000", "ada", "gb300", "gh200", "k80",
        "l2", "l40", "laptop", "max", "mi210", "mi250", "mi250x", "mi300a", "mi350x", "mi355x",
        "mig", "p4", "p40", "p100", "pcie", "super", "ti", "3080", "4070", "4080", "4090d", "5070",
        "5080", "5090d",
    }
)  # fmt: skip
"""Words of cards that aren't known, and whose numbers aren't those of a card with a like name."""
MAKERS = frozenset(
    {"nvidia", "geforce", "tesla", "amd", "instinct", "sxm", "sxm2", "sxm4", "sxm5", "oam"}
)


def _driver_name(words: str) -> Device | None:
    """The device that a driver's whole name means: every word of it is known."""
    found = set(words.split("-")) - MAKERS
    if "hbm3" in found:  # H100 80GB HBM3 has the SXM board's memory; a PCIe card has HBM2e
        found -= {"hbm3", "80gb"}
    if found == {"rtx", "a6000"}:
        found = {"a6000"}
    same = [device for name, device in DEVICES.items() if set(name.split("-")) == found]
    return same[0] if same else None


def device_called(reported: str) -> Device | None:
    """The preset for a name as drivers report it, such as `NVIDIA GeForce RTX 4090`."""
    words = set(reported.lower().replace("-", " ").split())
    if OTHERS & words:
        return None
    named = [name for name in DEVICES if words.issuperset(name.split("-"))]
    longest = max(named, key=lambda name: len(name.split("-")), default=None)  # h100-nvl, not h100
    return DEVICES[longest] if longest else None


def _custom(name: str, memory_alone: bool) -> Device:
    given = {"host": PCIE_4, "peer": PCIE_4}
    for key, value in key_values(name, f"--gpu {name}")[1].items():
        if key not in CUSTOM_UNITS:
            raise InputError(f"--gpu {name}: no number {key!r}; {suggestion(key, CUSTOM_UNITS)}")
        given[key] = parse_quantity(value, CUSTOM_UNITS[key], f"--gpu {name}: {key}")
        most = LARGEST_BYTES if key == "memory" else LARGEST_RATE
        if not 0 < given[key] <= most:
            unit = next(iter(CUSTOM_UNITS[key]))
            least = CUSTOM_UNITS[key][unit]
            raise InputError(
                f"--gpu {name}: {key}={value}, "
                f"expected more than 0 and at most {most // least:,} {unit}"
            )
    if memory_alone:
        given = {"bandwidth": 0, "flops": 0, **given}
    for key in CUSTOM_UNITS:
        if key not in given:
            unit = list(CUSTOM_UNITS[key])[-1]
            raise InputError(f"--gpu {name}: {key} is missing, expected such as {key}=1{unit}")
    return Device(
        "custom",
        given["memory"],
        given["bandwidth"],
        given["flops"],
        given["host"],
        given["peer"],
        f"--gpu {name}",
        f"--gpu {name}",
    )
