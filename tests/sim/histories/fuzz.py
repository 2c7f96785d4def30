"""Random histories under all laws, counted: `python -m tests.sim.histories.fuzz [how many] [seed]`.

Each history is held to every law of one run, and to those laws of two runs that it is picked for.
"""

import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.sim.histories.again import metrics_are_those_of_the_tables
from tests.sim.histories.changed import CHANGED
from tests.sim.histories.kept import KEPT
from tests.sim.histories.made import history, run

PICKED = 3  # of the laws of two runs, for each history


@dataclass
class Tally:
    """How often what was tried, and what broke."""

    laws: Counter[str] = field(default_factory=Counter)
    seen: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)


def check(seed: int, number: int, tally: Tally) -> None:
    """One history under its laws."""
    one = history(seed, number)
    for kind in (one.engine, one.cost, *one.policy.split("+")):
        tally.seen[kind.partition(":")[0]] += 1
    law = "run"
    try:
        out = run(one)
        for kept in (*KEPT, metrics_are_those_of_the_tables):
            law = kept.__name__
            kept(out)
            tally.laws[law] += 1
        for changed in Random(f"{seed} {number} laws").sample(CHANGED, PICKED):
            law = changed.__name__
            tally.laws[law] += changed(out)
    except AssertionError as error:
        said = " ".join(str(error).split())[:300]
        tally.broken.append(f"history {number} of seed {seed}, {one.policy}: {law}: {said}")


def main(histories: int = 20_000, seed: int = 1) -> int:
    """Print counts; how many histories broke a law."""
    tally, began = Tally(), time.process_time()
    for number in range(histories):
        check(seed, number, tally)
        if tally.broken:
            print(tally.broken.pop(), flush=True)
            tally.seen["BROKEN"] += 1
        if (number + 1) % 1000 == 0:
            print(f"{number + 1:,}: {tally.seen['BROKEN']} broken", flush=True)
    print(f"{histories:,} histories of seed {seed}, {time.process_time() - began:.0f} s of CPU")
    for what, counted in (("under", tally.seen), ("laws", tally.laws)):
        print(what, *(f"  {name:50} {n:8,}" for name, n in sorted(counted.items())), sep="\n")
    return tally.seen["BROKEN"]


if __name__ == "__main__":
    sys.exit(1 if main(*map(int, sys.argv[1:])) else 0)
