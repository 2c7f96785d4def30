"""Times of a layer's experts, by tokens and by how many experts they wake."""

from collections.abc import Iterable

from sim.cost.kernels.grid import Line, neighbours
from sim.cost.kernels.profile import Row
from sim.model.geometry import Model


class Experts:
    """Bilinear between measured (tokens, activated experts).

    Tokens are taken to choose evenly: of E experts, k a token, T tokens wake
    E · (1 − (1 − k/E)^T) in the mean. E is the largest number that was measured.
    """

    def __init__(self, rows: Iterable[Row], model: Model) -> None:
        measured: dict[int, list[tuple[int, float]]] = {}
        for _, _, tokens, activated, time in rows:
            measured.setdefault(tokens, []).append((activated, time))
        self._lines = {tokens: Line(points) for tokens, points in measured.items()}
        self._tokens = sorted(self._lines)
        self.count = max(line.xs[-1] for line in self._lines.values())
        weights = model.weights
        self._share = weights.active_experts / weights.experts
        self.most_tokens = self._tokens[-1]

    def activated(self, tokens: int) -> float:
        """Experts that so many tokens wake in the mean."""
        return self.count * (1 - (1 - self._share) ** tokens)

    def at(self, tokens: int) -> float:
        """Microseconds of one layer."""
        return self._between(tokens, self.activated(tokens))

    def share(self, tokens: int, ranks: int) -> float:
        """Microseconds of one layer on one of `ranks` GPUs that hold as many experts each.

        Of so many tokens of all ranks its experts get an equal share of the choices, which is what
        as large a share of the tokens makes among all experts, and of the experts woken.
        """
        least = min(-(-tokens // ranks), self.most_tokens)
        return self._between(least, self.activated(tokens) / ranks)

    def _between(self, tokens: int, woken: float) -> float:
        low, high, share = neighbours(self._tokens, tokens)
        first = self._at(low, woken)
        return first + share * (self._at(high, woken) - first)

    def _at(self, tokens: int, woken: float) -> float:
        line = self._lines[tokens]  # so few tokens can't wake more than were measured with them
        return line.at(min(max(woken, line.xs[0]), line.xs[-1]))
