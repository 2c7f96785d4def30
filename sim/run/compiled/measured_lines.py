"""Lines between what was measured, and what is said beyond it, for `measured` and `measured_steps`.

Floats of tables lie in F, and every sum is made in the order in which the objects make it. A line
at `at` of S: its number of points, their x, and the place of the first y in F. A row: its number
of entries, their keys, and their places in the table.
"""

# Places in S, which `build` decides.
measured_at = measured_said = 0

# -- from here on this is also the beginning of every compiled module --

UNBOUNDED = 2**62
AS_PER_S = 10**18


def _say(S: list[int], what: int, limit: int, asked: int) -> None:
    """A run left what was measured: the most asked for, and in which order it was said first."""
    at = S[measured_said] + 1 + 2 * what
    if asked > max(S[at + 1], limit):
        if not S[at]:
            S[S[measured_said]] += 1
            S[at] = S[S[measured_said]]
        S[at + 1] = asked


def _segment(S: list[int], at: int, x: float) -> int:
    """Index of the segment in which x lies, or of the nearest, of points behind their number."""
    low, high = 0, S[at]
    while low < high:
        middle = (low + high) // 2
        if x < S[at + 1 + middle]:
            high = middle
        else:
            low = middle + 1
    return min(max(low - 1, 0), S[at] - 2)


def _along(S: list[int], F: list[float], at: int, x: float) -> float:
    """The value of a line; beyond its points the end segments go on."""
    n = S[at]
    y = S[at + 1 + n]
    if n == 1:
        return F[y]
    i = _segment(S, at, x)
    share = (x - S[at + 1 + i]) / (S[at + 2 + i] - S[at + 1 + i])
    return F[y + i] + share * (F[y + i + 1] - F[y + i])


def _crossing(S: list[int], F: list[float], row: int, at: int, x: int) -> float:
    """Between lines of a row: each at x, and of those at `at`."""
    n = S[row]
    base = S[measured_at]
    if n == 1:
        return _along(S, F, base + S[row + 2], float(x))
    i = _segment(S, row, float(at))
    share = (at - S[row + 1 + i]) / (S[row + 2 + i] - S[row + 1 + i])
    low = _along(S, F, base + S[row + 1 + n + i], float(x))
    high = _along(S, F, base + S[row + 2 + n + i], float(x))
    return low + share * (high - low)
