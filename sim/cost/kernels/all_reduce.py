"""The sum over GPUs that tensor parallelism needs after attention and after the MLP."""

from collections.abc import Iterable
from typing import NamedTuple

from sim.cost.base import Constant
from sim.cost.kernels.grid import Line
from sim.cost.kernels.profile import Row
from sim.hardware import Device

ASSUMED = "assumed: latency of one kernel and the link's peak rate; calibrate for your machine"


class AllReduce(NamedTuple):
    """Latency + bytes ÷ bandwidth, with other numbers above `switch` bytes.

    Libraries change protocol with size: small messages go with flags in every word at about half
    the wire's rate (NCCL's LL), large ones whole (Simple).
    """

    small_latency: Constant
    small_bandwidth: Constant
    switch: Constant
    large_latency: Constant
    large_bandwidth: Constant

    def seconds(self, size_bytes: int) -> float:
        """Time of one all-reduce of so many bytes."""
        if size_bytes <= self.switch.value:
            return self.small_latency.value + size_bytes / self.small_bandwidth.value
        return self.large_latency.value + size_bytes / self.large_bandwidth.value


def all_reduce(numbers: dict[str, float], source: str) -> AllReduce:
    """From the numbers a profile carries: seconds, bytes and bytes/s by field name."""
    units = {"latency": "s", "bandwidth": "B/s", "switch": "B"}
    return AllReduce(
        *(
            Constant(f"all_reduce_{name}", numbers[name], units[name.split("_")[-1]], source)
            for name in AllReduce._fields
        )
    )


def assumed(device: Device) -> AllReduce:
    """Where nothing was measured: 20 µs and the peak rate of the device's link, in one regime."""
    numbers = {
        "small_latency": 20e-6,
        "small_bandwidth": float(device.peer_bytes_per_s),
        "switch": 0.0,
        "large_latency": 20e-6,
        "large_bandwidth": float(device.peer_bytes_per_s),
    }
    return all_reduce(numbers, ASSUMED)


class MeasuredAllReduce:
    """Times by bytes; beyond the largest the last segment goes on."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._line = Line((row[2], row[4]) for row in rows)

    def seconds(self, size_bytes: int) -> float:
        """Time of one all-reduce of so many bytes."""
        return self._line.at(max(size_bytes, self._line.xs[0])) / 1e6
