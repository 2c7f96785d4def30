"""Quantities with their units: GB is 10^9 bytes, GiB is 2^30; nothing is assumed or mixed."""

import re
from fractions import Fraction

from workloads.errors import InputError
from workloads.incoming import shown

BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
BYTES_PER_S = {f"{unit}/s": factor for unit, factor in BYTES.items()}
FLOPS_PER_S = {"GFLOP/s": 10**9, "TFLOP/s": 10**12, "PFLOP/s": 10**15}
NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}

MOST = 10**18
"""Of anything in base units: a device of a million TB, for one."""

QUANTILES = {80: 1.2816, 90: 1.6449, 95: 1.9600, 99: 2.5758}
"""Standard deviations either side of the mean of a normal distribution, by per cent within."""

_LONGEST = 40
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]+)\s*")


def parse_quantity(text: str, units: dict[str, int], where: str) -> int:
    """The quantity in base units, rounded down. Raises InputError starting with `where`."""
    match = _QUANTITY.fullmatch(text)
    # case is ignored: no two units of a table differ in case alone
    factor = {u.lower(): f for u, f in units.items()}.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise InputError(f"{where}={text}: expected a number and a unit of {', '.join(units)}")
    if len(match[1]) > _LONGEST or (amount := int(Fraction(match[1]) * factor)) > MOST:
        raise InputError(
            f"{where}={shown(text)[1:-1]}: expected at most {MOST:.0e} {next(iter(units))}"
        )
    return amount


def parse_bytes(text: str, where: str) -> int:
    """Bytes of `14GB` or `3.81GiB`, rounded down. Raises InputError starting with `where`."""
    return parse_quantity(text, BYTES, where)


def gib(size_bytes: int) -> str:
    """Bytes in GiB with two decimals, such as `3.81 GiB`."""
    return f"{size_bytes / 2**30:,.2f} GiB"


def deviations(level: int) -> float:
    """Standard deviations of `--interval`. Raises InputError where the level is none of those."""
    if level not in QUANTILES:
        levels = ", ".join(map(str, QUANTILES))
        raise InputError(f"--interval {level}: expected one of {levels} per cent")
    return QUANTILES[level]
