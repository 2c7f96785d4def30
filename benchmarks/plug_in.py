"""`python -m benchmarks.plug_in TREE`: interpreted loops here beside another tree's, in turns.

The plug-in is plain Python, derived from the contract alone. CPU time of the table's 10,000
requests, the best of some rounds, and whether both trees find the same requests.
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


found = {}
setups = {"plug-in": replace(table(), policy=Tokens())}
setups |= {policy: table(policy) for policy in ("paging", "paging+prefix", "growing")}
for name, setup in setups.items():
    start = time.process_time()
    recorder = loop(setup)
    took = time.process_time() - start
    columns = recorder.log().requests
    digest = hashlib.sha256(b"".join(columns[n].tobytes() for n in ("first_token_s", "finish_s")))
    found[name] = 1e6 * took / len(setup.trace), digest.hexdigest()
print(json.dumps(found))
"""
HERE = Path(__file__).parents[1]


def measured(tree: Path) -> dict[str, tuple[float, str]]:
    """Microseconds a request and what was found, by policy."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "KVTWIN_COMPILE": "0"}
    command = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(command, cwd=tree, env=environment, check=True, capture_output=True)
    found: dict[str, tuple[float, str]] = json.loads(told.stdout)
    return found


def main(other: str, rounds: int = 4) -> None:
    trees = Path(other).resolve(), HERE
    runs = [[measured(tree) for tree in trees] for _ in range(rounds)]
    print(
        "| now / before | policy | now, µs a request | before | requests |\n|---|---|---|---|---|"
    )
    for policy in runs[0][0]:
        before, now = (min(each[i][policy][0] for each in runs) for i in range(2))
        same = len({one[policy][1] for each in runs for one in each}) == 1
        said = "the same" if same else "others"
        print(f"| {now / before:.2f} | {policy} | {now:.1f} | {before:.1f} | {said} |")


if __name__ == "__main__":
    main(*sys.argv[1:2])
