"""`python -m tests.conformance`: random cases through vLLM and kvtwin, compared step by step."""

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE, Popen

from tests.conformance import kvtwin_side
from tests.conformance.case import Case, Step
from tests.conformance.compare import difference, reproduction, shrink
from tests.conformance.generate import SUITES, cases

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv/conformance/bin/python"


class Vllm:
    """vLLM in a process and an environment of its own."""

    def __init__(self) -> None:
        self._process = Popen(
            [PYTHON, "-m", "tests.conformance.vllm_side"],
            cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=sys.stderr, text=True,
        )  # fmt: skip

    def run(self, case: Case) -> list[Step]:
        """Its steps. Raises RuntimeError where it can't serve the case."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps(asdict(case)), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if isinstance(answer, dict):
            raise RuntimeError(answer["error"])
        return [_step(one) for one in answer]


def _step(fields: dict[str, object]) -> Step:
    step = Step(**fields)  # type: ignore[arg-type]
    step.tokens = {int(name): n for name, n in step.tokens.items()}
    step.admitted = {int(name): n for name, n in step.admitted.items()}
    return step


def compared(case: Case, vllm: Vllm) -> tuple[str | None, list[Step]]:
    """What differs, if anything, and vLLM's steps."""
    steps: list[Step] = []
    try:
        steps = vllm.run(case)
        return difference(steps, kvtwin_side.run(case)), steps
    except (RuntimeError, AssertionError, KeyError, ValueError, AttributeError) as error:
        return f"{type(error).__name__}: {error}", steps


def both(case: Case) -> None:
    """Print each step of both, side by side."""
    theirs, ours = Vllm().run(case), kvtwin_side.run(case)
    for number in range(max(len(theirs), len(ours))):
        for name, steps in (("vLLM  ", theirs), ("kvtwin", ours)):
            print(number, name, steps[number] if number < len(steps) else None)
    print(difference(theirs, ours) or "no difference")


def run_suite(suite: str, count: int, seed: int, vllm: Vllm, shown: int) -> dict[str, int]:
    """Counts of what happened; the first failures are printed, shrunk."""
    counts: Counter[str] = Counter()
    for case in cases(suite, count, seed):
        why, steps = compared(case, vllm)
        preemptions = sum(len(step.preempted) for step in steps)
        evictions = steps[-1].evicted if steps else 0
        hits = sum(tokens > 0 for step in steps for tokens in step.admitted.values())
        counts.update(
            cases=1,
            identical=why is None,
            steps=len(steps),
            preemptions=preemptions,
            tight=case.tight,
            preempting=preemptions > 0,
            preempting_tight=preemptions > 0 and case.tight,
            evictions=evictions,
            evicting=evictions > 0,
            hits=hits,
            hitting=hits > 0,
            prefix=case.prefix,
        )
        if counts["cases"] % 250 == 0:
            print(json.dumps({"suite": suite, **counts}), file=sys.stderr, flush=True)
        if why:
            counts["differ"] += 1
            if counts["differ"] <= shown:
                small = shrink(case, lambda one: compared(one, vllm)[0])
                print(reproduction(small, f"{suite} {case.seed}: {compared(small, vllm)[0]}"))
                sys.stdout.flush()
    return dict(counts)


def main() -> int:
    """Exit status 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("suites", nargs="*", default=SUITES, help=f"of {', '.join(SUITES)}")
    parser.add_argument("-n", type=int, default=100, help="cases of each suite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--show", type=int, default=1, help="failures to shrink and print, a suite")
    options = parser.parse_args()
    vllm, failed = Vllm(), False
    for suite in options.suites:
        counts = run_suite(suite, options.n, options.seed, vllm, options.show)
        print(json.dumps({"suite": suite, "seed": options.seed, **counts}), flush=True)
        failed |= counts["identical"] != counts["cases"]
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
