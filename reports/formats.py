"""Numbers as people read them: memory in GiB, rates as datasheets have them (GB/s)."""

from collections.abc import Sequence

from reports.language import current, tr

GIB, MIB = 2**30, 2**20

LONG_MS = 10_000
"""Times from here on are easier to read in seconds."""

HOUR_MS = 3_600_000

RATES = {"B/s": ("GB/s", 1e9), "FLOP/s": ("TFLOP/s", 1e12)}


def number(value: float | None, unit: str = "") -> str:
    """The value without its unit: bytes in GiB, shares to a tenth, counts whole."""
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{value / GIB:,.2f}"
    if unit == "%":
        return f"{value:.1f}"
    if float(value).is_integer() and unit not in ("ms", "s", "h") and "/" not in unit:
        return f"{value:,.0f}"
    return f"{value:,.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    """Four figures at most before the reader's eye tires, three decimals at most."""
    size = abs(value)
    return 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 or size == 0 else 3


def shown_unit(unit: str) -> str:
    """The unit that `number` shows a value in."""
    return "GiB" if unit == "bytes" else unit


def column(
    values: Sequence[float | None], unit: str, family: Sequence[float] = ()
) -> tuple[str, list[str]]:
    """The unit that these values are shown in together, and each of them in it.

    `family`: all values of the metrics that share the unit, such as every statistic of TTFT. Times
    are in ms, from 10 s on in s, and in hours where none is below one; bytes in GiB, and where all
    are small in MiB.
    """
    known = [*family, *(value for value in values if value is not None)]
    if unit == "ms" and known and max(known) >= LONG_MS:
        hours = min(known) >= HOUR_MS
        scale, shown = (HOUR_MS, "h") if hours else (1000, "s")
        return shown, [number(None if v is None else v / scale, shown) for v in values]
    if unit == "bytes" and any(known) and max(map(abs, known)) < 0.1 * GIB:
        return "MiB", ["–" if v is None else f"{v / MIB:,.2f}" for v in values]
    return shown_unit(unit), [number(value, unit) for value in values]


def gib(value: float) -> str:
    """Bytes as GiB with unit; small ones as MiB or KiB."""
    size = abs(value)
    for scale, name in ((GIB, "GiB"), (MIB, "MiB"), (2**10, "KiB")):
        if size >= 0.1 * scale:
            return f"{value / scale:,.2f} {name}"
    return f"{value:,.0f} B"


def power(value: float, unit: str) -> str:
    """A number of any size, such as 2.04 × 10^12 tokens."""
    if value == 0:
        return f"0 {unit}"
    mantissa, exponent = f"{value:.2e}".split("e")
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(mantissa):g} × 10{digits} {unit}"


def rate(value: float, unit: str) -> str:
    """A device's rate as its datasheet has it: 1,555 GB/s, 989.4 TFLOP/s; up to 1: not known."""
    shown, scale = RATES[unit]
    if value <= 1:  # a device that nobody describes
        return tr("{unit} not known", unit=shown)
    return (
        f"{round(value / scale, 1):,.{0 if round(value / scale, 1).is_integer() else 1}f} {shown}"
    )


def rate_per_s(value: float) -> str:
    """Requests/s as sentences have them, three figures: 1.01, 0.5, 12."""
    return f"{value:,.3g}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it, three figures: 12.5 ms, 98.1 s, 8.5 min, 3.05 h."""
    for below, unit, scale in ((1, "ms", 1e-3), (300, "s", 1), (7200, "min", 60)):
        if seconds < below:
            return f"{seconds / scale:.3g} {unit}"
    hours = seconds / 3600
    return f"{hours:.3g} h" if hours < 1000 else f"{hours:,.0f} h"


def durations(seconds: Sequence[float]) -> list[str]:
    """Times of one column, all in the unit that suits the smallest; none in ms beside 10 s."""
    least, most = min(seconds, default=0.0), max(seconds, default=0.0)
    unit, scale = "h", 3600.0
    if least < 1:
        unit, scale = ("ms", 1e-3) if most < LONG_MS / 1000 else ("s", 1.0)
    elif least < 300:
        unit, scale = "s", 1.0
    elif least < 7200:
        unit, scale = "min", 60.0
    values = [value / scale for value in seconds]
    return [f"{v:.3g} {unit}" if v < 999.5 else f"{v:,.0f} {unit}" for v in values]


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    last = tr(" and ")
    return last.join(filter(None, [tr(", ").join(words[:-1]), *words[-1:]]))


def counted(count: int, noun: str) -> str:
    """`1 request`, `1,024 requests`."""
    plural = "s" if count != 1 and current() == "en" else ""
    return f"{count:,} {tr(noun)}{plural}"
