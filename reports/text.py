"""Numbers as people read them. Bytes are binary (GiB), always; nothing here says GB."""

GIB = 2**30


def number(value: float | None, unit: str = "") -> str:
    """The value without its unit: bytes in GiB, shares to a tenth, counts whole."""
    if value is None:
        return "–"
    if unit == "bytes":
        return f"{value / GIB:,.2f}"
    if unit == "%":
        return f"{value:.1f}"
    if float(value).is_integer() and unit not in ("ms", "s") and "/" not in unit:
        return f"{value:,.0f}"
    return f"{value:,.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    """Four figures at most before the reader's eye tires, three decimals at most."""
    size = abs(value)
    return 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 or size == 0 else 3


def shown_unit(unit: str) -> str:
    """The unit that `number` shows a value in."""
    return "GiB" if unit == "bytes" else unit


def gib(value: float) -> str:
    """Bytes as GiB with unit; small ones as MiB or KiB."""
    size = abs(value)
    for scale, name in ((GIB, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= 0.1 * scale:
            return f"{value / scale:,.2f} {name}"
    return f"{value:,.0f} B"


def power(value: float, unit: str) -> str:
    """A rate such as 2.04 × 10^12 B/s: decimal prefixes would sit beside binary ones."""
    if value == 0:
        return f"0 {unit}"
    mantissa, exponent = f"{value:.2e}".split("e")
    digits = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(mantissa):g} × 10{digits} {unit}"


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def counted(count: int, noun: str) -> str:
    """`1 request`, `1,024 requests`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
