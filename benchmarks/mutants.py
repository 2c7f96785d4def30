"""Mistakes made on purpose, each of which a named test must find: `make mutants`.

Each mutant is one change of one place, applied to a copy of the tree, with the test that is to
fail. A mutant survives if that test passes. One whose place is no longer there is stale: look for
the place, or let the mutant go with it. Arguments choose mutants by a part of their name.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
LONGEST_S = 300
COMPILED = shutil.ignore_patterns("__pycache__")  # a mutant of equal length is no stale file
UNCOMPILED = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
PACKAGES = ("kvtwin", "sim", "executor", "reports", "workloads", "tests", "docs")
METRICS, METRIC_TESTS = "sim/run/metrics.py", "tests/sim/run/test_metrics.py"
ANSWERS = "tests/sim/policy/test_known_answers.py"


class Mutant(NamedTuple):
    """`old` stands exactly once in the file."""

    name: str
    file: str
    old: str
    new: str
    test: str


MUTANTS = (
    Mutant(
        "rank of every percentile off by one",
        METRICS,
        "rank = q / 100 * last",
        "rank = q / 100 * (last - 1)",
        f"{METRIC_TESTS}::test_percentiles_of_token_gaps_weigh_every_gap",
    ),
    Mutant(
        "weights of inter-token gaps dropped",
        "sim/run/gaps.py",
        "np.repeat(decodes, steps)",
        "np.ones(int(steps.sum()), np.int64)",
        f"{METRIC_TESTS}::test_percentiles_of_token_gaps_weigh_every_gap",
    ),
    Mutant(
        "side of the sample search swapped",
        "sim/measured/series.py",
        'row = np.searchsorted(ends, seconds, side="left")',
        'row = np.searchsorted(ends, seconds, side="right")',
        "tests/sim/measured/test_series.py::test_a_report_is_of_the_last_step_that_ended",
    ),
    Mutant(
        "pages reused in the other order",
        "executor/cache/table.py",
        "self._free.extend(reversed(self.owned.pop(request)))",
        "self._free.extend(self.owned.pop(request))",
        "tests/executor/test_tables.py::test_pages_are_reused_last_in_first_out",
    ),
    Mutant(
        "a built-in policy name taken over",
        "sim/policy/registry.py",
        "{**plugins.found().policies, **BUILT_IN}",
        "{**BUILT_IN, **plugins.found().policies}",
        "tests/sim/policy/test_third_party.py::test_built_in_names_cannot_be_taken_over",
    ),
    Mutant(
        "running counted after a finish",
        "sim/engine/loop.py",
        """\
        recorder.stepped(self.now_as, plan, done, scheduler)
        self.now_as = end
        first, finished = scheduler.complete(plan)
""",
        """\
        first, finished = scheduler.complete(plan)
        recorder.stepped(self.now_as, plan, done, scheduler)
        self.now_as = end
""",
        f"{METRIC_TESTS}::test_running_is_counted_before_who_is_done_leaves",
    ),
    Mutant(
        "TPOT divided by all tokens",
        "reports/request_times.py",
        "several = np.where(tokens > 1, tokens - 1, 1)",
        "several = np.where(tokens > 1, tokens, 1)",
        f"{METRIC_TESTS}::test_latencies_are_those_of_the_stamps",
    ),
    Mutant(
        "idle samples among the memory shares",
        METRICS,
        'busy = t["running"] > 0',
        'busy = t["running"] >= 0',
        f"{METRIC_TESTS}::test_memory_shares_are_over_samples_in_which_requests_run",
    ),
    Mutant(
        "prompts of refused requests among the throughput",
        "sim/run/totals.py",
        "int(prompt[(status == FINISHED) | (status == TRUNCATED)].sum())",
        "int(prompt.sum())",
        f"{METRIC_TESTS}::test_throughput",
    ),
    Mutant(
        "gap of a resumed request forgotten",
        "sim/run/gaps.py",
        "yield away, np.ones_like(away, np.int64)",
        "yield 0 * away, np.ones_like(away, np.int64)",
        f"{METRIC_TESTS}::test_percentiles_of_token_gaps_weigh_every_gap",
    ),
    Mutant(
        "samples due an interval after the last, not on a grid",
        "sim/engine/record.py",
        "(now_as // self._interval_as + 1) * self._interval_as",
        "now_as + self._interval_as",
        f"{METRIC_TESTS}::test_samples_are_taken_in_the_first_step_at_or_after_they_are_due",
    ),
    Mutant(
        "blocks a request holds already taken again",
        "sim/policy/counting/pages.py",
        "self.free -= need - seq.held\n        seq.held = need\n\n    def join",
        "self.free -= need\n        seq.held = need\n\n    def join",
        f"{METRIC_TESTS}::test_a_context_in_two_chunks_takes_its_blocks_once",
    ),
    Mutant(
        "preallocation seats one more than fits",
        "sim/policy/counting/slabs.py",
        "return self.taken < self.total",
        "return self.taken <= self.total",
        "tests/sim/engine/test_scheduler.py"
        "::test_preallocation_seats_are_the_budget_over_the_reservation",
    ),
    Mutant(
        "scales of int8 not counted",
        "sim/policy/storage.py",
        'scale: Side = "fp32"',
        'scale: Side = "none"',
        f"{ANSWERS}::test_stored_bytes_of_llama_3_8b",
    ),
    Mutant(
        "values of quantised tokens not stored",
        "sim/model/layers.py",
        "return heads * sum(key), heads * sum(value),",
        "return heads * sum(key), 0 * sum(value),",
        f"{ANSWERS}::test_stored_bytes_of_llama_3_8b",
    ),
    Mutant(
        "two storages in one policy",
        "sim/policy/spec.py",
        "if kind in found:",
        "if kind in ():",
        f"{ANSWERS}::test_what_does_not_compose_is_refused_in_one_line",
    ),
    Mutant(
        "order of composition forgotten",
        "sim/policy/spec.py",
        "pool, retained = self.retention.apply(pool)",
        "_, retained = self.retention.apply(pool)",
        f"{ANSWERS}::test_select_saves_reads_and_evict_saves_memory",
    ),
    Mutant(
        "fewest steps one too many",
        "sim/run/driver.py",
        "return min(limit, -(-span // first))",
        "return min(limit, span // first + 1)",
        "tests/sim/engine/test_timing.py::test_steps_to_reach_is_the_fewest",
    ),
    Mutant(
        "growth of repeated steps counted once too often",
        "sim/run/driver.py",
        """\
                duration = steps * first + growth * (steps * (steps - 1) // 2)
                span""",
        """\
                duration = steps * first + growth * (steps * (steps + 1) // 2)
                span""",
        "tests/sim/engine/test_fast_forward.py",
    ),
    Mutant(
        "attention of a chunk without its own tokens",
        "sim/cost/roofline.py",
        "length * start + length * (length + 1) // 2",
        "length * start",
        "tests/sim/engine/test_timing.py",
    ),
    Mutant(
        "a gigabyte taken for a gibibyte",
        "sim/units.py",
        '"GB": 10**9',
        '"GB": 2**30',
        "tests/sim/memory/test_hardware.py::test_gb_is_not_gib",
    ),
    Mutant(
        "the rate scaled the other way round",
        "workloads/transform.py",
        "factor = current / request_rate",
        "factor = request_rate / current",
        "tests/workloads/test_transform.py::test_scaling_gives_the_rate_and_keeps_the_shape",
    ),
    Mutant(
        "a slice with its end",
        "workloads/transform.py",
        'np.searchsorted(trace.arrival_s, [start_s, end_s], side="left")',
        'np.searchsorted(trace.arrival_s, [start_s, end_s], side="right")',
        "tests/workloads/test_transform.py::test_slice_is_half_open_and_starts_at_zero",
    ),
    Mutant(
        "the slowest marked as the best",
        "reports/comparison.py",
        "sign, fair = -1, [count == most for count in served]",
        "sign, fair = 1, [count == most for count in served]",
        "tests/reports/test_comparison.py::test_the_best_is_marked",
    ),
    Mutant(
        "a folder of other things replaced",
        "workloads/folders.py",
        "if relative != MARK and not _is_ours(path, named.get(relative)):",
        "if relative != MARK and _is_ours(path, named.get(relative)):",
        "tests/workloads/test_folders.py::test_a_file_that_the_user_wrote_stays",
    ),
    Mutant(
        "the last sampled token written",
        "sim/sequence.py",
        "return self.prompt + self.output - 1",
        "return self.prompt + self.output",
        "tests/sim/policy/test_known_answers.py::test_reservations_of_orca",
    ),
    Mutant(
        "layers of two kinds executed kind by kind",
        "executor/cache/tensors.py",
        "if model.kinds:",
        "if not model.kinds:",
        "tests/executor/test_layer_windows.py::test_layers_are_in_the_models_order",
    ),
    Mutant(
        "windowed layers give a block back a token early",
        "executor/cache/grouped.py",
        "skip = kind.skipped(computed)",
        "skip = kind.skipped(computed + 1)",
        "tests/executor/test_layer_windows.py::test_each_layer_sees_its_window",
    ),
    Mutant(
        "who drew least attention stays",
        "executor/attention/evicting.py",
        "at(scores, self._leaving) > least",
        "at(scores, self._leaving) < least",
        "tests/executor/test_evicting.py::test_heads_keep_recent_tokens_and_heavy_hitters",
    ),
    Mutant(
        "memory behind addresses is kept",
        "executor/cache/virtual.py",
        "self.backing.give_back(*seated)",
        "pass",
        "tests/executor/test_virtual.py::test_by_hand",
    ),
    Mutant(
        "tables are not told what was forgotten",
        "executor/cache/told.py",
        'self._tell(Event("evict", (), blocks))',
        "pass",
        "tests/executor/test_prefix_tables.py::test_tables_keep_what_the_manager_keeps",
    ),
)


def outcome(mutant: Mutant, tree: Path) -> str:
    """killed, SURVIVED, HANGS; STALE where its place is gone, BROKEN where its test is."""
    place = tree / mutant.file
    text = place.read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        return "STALE"
    place.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, mutant.test],
            cwd=tree,
            env=UNCOMPILED,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
    except subprocess.TimeoutExpired:
        return "HANGS"
    finally:
        place.write_text(text, encoding="utf-8")
    if done.returncode == 1:
        return "killed"
    return "SURVIVED" if done.returncode == 0 else "BROKEN"


def main(chosen: list[str]) -> int:
    """Try the mutants; how many were not killed."""
    mutants = [m for m in MUTANTS if not chosen or any(part in m.name for part in chosen)]
    alive = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        tree.mkdir()
        for package in PACKAGES:
            shutil.copytree(ROOT / package, tree / package, ignore=COMPILED)
        for file in ("pyproject.toml", "README.md", "DESIGN.md", "CONTRIBUTING.md"):
            shutil.copy(ROOT / file, tree)
        for mutant in mutants:
            found = outcome(mutant, tree)
            alive += found != "killed"
            print(f"{found:8} {mutant.name}: {mutant.test}", flush=True)
    print(f"{len(mutants) - alive} of {len(mutants)} killed")
    return alive


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
