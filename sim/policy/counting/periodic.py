"""What paged placements share: units taken on demand, growth foretold by a histogram."""

from abc import abstractmethod
from sys import maxsize

from sim.policy.counting.tallied import Tallied
from sim.policy.manager import Pool
from sim.sequence import Sequence


class Periodic(Tallied):
    """Units (blocks, pages) whose need repeats every `period` tokens.

    A decoding sequence of length L needs units in the step that writes token L + 1 depending on
    L % period alone. With r = (stored - joined_tick) % period that is (r + tick) % period, so
    sequences can be counted by r and never touched again. `filling` of them still take units.
    """

    reserves = False

    def __init__(self, pool: Pool, period: int, units: int, kept_back: int = 0) -> None:
        super().__init__(pool)
        self.period = period
        self.units = units
        self.free = units
        self.kept_back = kept_back  # units that admission leaves free, growth doesn't
        self.filling = 0
        self.fills_below = maxsize  # a longer sequence takes no more units
        self._residues = [0] * period

    @abstractmethod
    def units_for(self, tokens: int) -> int:
        """Units that a sequence of that length holds."""

    def longest(self) -> int:
        low, high = 0, self.pool.max_len
        while low < high:
            middle = (low + high + 1) // 2
            if self.units_for(middle) <= self.units:
                low = middle
            else:
                high = middle - 1
        return low

    def can_admit(self, seq: Sequence) -> bool:
        keep = self.kept_back if self.free < self.units else 0
        return self.units_for(seq.target) <= self.free - keep

    def can_extend(self, seq: Sequence, tokens: int) -> bool:
        return self.units_for(seq.stored + tokens) - seq.held <= self.free

    def extend(self, seq: Sequence, tokens: int) -> None:
        super().extend(seq, tokens)
        need = self.units_for(seq.stored)
        self.free -= need - seq.held
        seq.held = need

    def join(self, seq: Sequence) -> None:
        super().join(seq)
        if seq.stored < self.fills_below:
            self._residues[(seq.stored - self.tick) % self.period] += 1
            self.filling += 1

    def rest(self, seq: Sequence) -> None:
        super().rest(seq)
        if seq.stored < self.fills_below:
            self._residues[(seq.stored - self.tick) % self.period] -= 1
            self.filling -= 1
        seq.held = self.units_for(seq.stored)

    def release(self, seq: Sequence) -> None:
        if seq.joined_tick >= 0:
            self.rest(seq)
        self.prefilled -= seq.stored
        self.free += seq.held
        seq.held = 0

    def check_integrity(self) -> None:
        super().check_integrity()
        assert 0 <= self.free <= self.units
        assert sum(self._residues) == self.filling
        assert min(self._residues) >= 0
