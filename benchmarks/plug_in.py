"""`python -m benchmarks.plug_in TREE`: a plug-in's loop here beside another tree's, in turns.

The policy is plain Python, derived from the contract alone. CPU time of the table's 10,000 requests
interpreted, the best of some rounds, and whether both trees find the same requests.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import hashlib, json, time
from dataclasses import dataclass, replace
from benchmarks.workload import loop, table
from sim.policy import Manager, Memory, Policy


@dataclass(frozen=True)
class Tokens(Policy):
    def manager(self, pool):
        return TokensManager(pool)


class TokensManager(Manager):
    reserves = False

    def __init__(self, pool):
        super().__init__(pool)
        self.slots = self.free = pool.capacity_bytes // pool.token_bytes

    def longest(self):
        return self.slots

    def can_admit(self, seq):
        return seq.target <= self.free

    def can_extend(self, seq, tokens):
        return tokens <= self.free

    def extend(self, seq, tokens):
        super().extend(seq, tokens)
        self.free -= tokens

    def growable(self, limit):
        return min(limit, self.free // self.decoding) if self.decoding else limit

    def grow(self, steps):
        super().grow(steps)
        self.free -= steps * self.decoding

    def release(self, seq):
        super().release(seq)
        self.free += seq.stored

    def memory(self):
        live = self.live_tokens() * self.pool.token_bytes
        rest = self.pool.capacity_bytes - self.slots * self.pool.token_bytes
        return Memory(live, 0, 0, rest, 0, self.free * self.pool.token_bytes)


setup = replace(table(), policy=Tokens())
best = 1e9
for _ in range(2):
    start = time.process_time()
    recorder = loop(setup)
    best = min(best, time.process_time() - start)
columns = recorder.log().requests
found = hashlib.sha256(b"".join(columns[n].tobytes() for n in ("first_token_s", "finish_s")))
print(json.dumps([1e6 * best / len(setup.trace), found.hexdigest()]))
"""
HERE = Path(__file__).parents[1]


def measured(tree: Path) -> tuple[float, str]:
    """Microseconds a request, and what was found."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "KVTWIN_COMPILE": "0"}
    command = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    us, found = json.loads(told.stdout)
    return us, found


def main(other: str, rounds: int = 3) -> None:
    trees = {"before": Path(other).resolve(), "now": HERE}
    took: dict[str, list[float]] = {name: [] for name in trees}
    found = set()
    for _ in range(rounds):
        for name, tree in trees.items():
            us, digest = measured(tree)
            took[name].append(us)
            found.add(digest)
    for name, values in took.items():
        print(f"{name}: {min(values):.1f} us a request (of {[round(v, 1) for v in values]})")
    print(f"now / before: {min(took['now']) / min(took['before']):.2f}")
    print("same requests" if len(found) == 1 else "other requests")


if __name__ == "__main__":
    main(*sys.argv[1:2])
