"""What GPUs cost and draw: data that users bring, as `--price h100=2.50/h --watts h100=700W`.

No price ships: they change by the week and by the contract. docs/sweeps.md has a dated example.
"""

import re
from dataclasses import dataclass

from sim.run.metrics import Metric
from workloads.errors import InputError

_TERM = re.compile(r"\s*([^=,\s]+)\s*=\s*\$?(\d{1,12}(?:\.\d{1,12})?)\s*(\S*)\s*")
MOST = 1e9
_EXAMPLES = {"/h": "2.50", "W": "700"}


@dataclass(frozen=True, slots=True)
class Money:
    """Of one GPU of a kind; None where nothing was said."""

    dollars_per_hour: float | None = None
    watts: float | None = None


def parse_by_device(text: str, where: str, unit: str) -> dict[str, float]:
    """Numbers by device: `h100=2.50/h,l4=0.70/h`. Raises InputError in one line.

    `unit` must stand behind each number, so that nobody gives dollars a month.
    """
    found: dict[str, float] = {}
    for term in text.split(","):
        match = _TERM.fullmatch(term)
        if match is None or match[3] != unit or not float(match[2]) <= MOST:
            raise InputError(
                f"{where} {text}: {term.strip()!r}, expected a device and a number such as "
                f"h100={_EXAMPLES[unit]}{unit}"
            )
        if match[1] in found:
            raise InputError(f"{where} {text}: {match[1]} is given twice")
        found[match[1]] = float(match[2])
    return found


def money(device: str, price: str | None, watts: str | None) -> Money:
    """What is said of the device. Raises InputError where others are named and it isn't."""
    values: list[float | None] = []
    for text, where, unit in ((price, "--price", "/h"), (watts, "--watts", "W")):
        if text is None:
            values.append(None)
            continue
        given = parse_by_device(text, where, unit)
        if device not in given:
            raise InputError(f"{where} {text}: says nothing of {device}, expected {device}=...")
        values.append(given[device])
    return Money(*values)


def money_metrics(
    money: Money, gpus: int, output_throughput: float | None, goodput: float | None
) -> list[Metric]:
    """Dollars and joules a million output tokens, and goodput a dollar; of what is known."""
    rows: list[Metric] = []
    if money.dollars_per_hour is not None:
        hourly = money.dollars_per_hour * gpus
        rows += [
            Metric("cost_per_hour", "Cost an hour", "$", "price of a GPU-hour × GPUs", hourly),
            Metric(
                "cost_per_million_tokens",
                "Cost a million tokens",
                "$",
                "cost an hour ÷ output tokens an hour × 10^6",
                hourly / 3600 / output_throughput * 1e6 if output_throughput else None,
            ),
        ]
        if goodput is not None:
            rows.append(
                Metric(
                    "goodput_per_dollar",
                    "Goodput a dollar",
                    "req/$",
                    "goodput × 3,600 s ÷ cost an hour",
                    3600 * goodput / hourly if hourly else None,
                )
            )
    if money.watts is not None:
        drawn = money.watts * gpus
        rows.append(
            Metric(
                "energy_per_million_tokens",
                "Energy a million tokens",
                "J",
                "watts of a GPU, as given, × GPUs ÷ output tokens a second × 10^6",
                drawn / output_throughput * 1e6 if output_throughput else None,
            )
        )
    return rows
