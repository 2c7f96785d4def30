"""What new users met, each with the tests that hold it mended. F numbers are the order of finding.

A line without tests says why there is none.
"""

import ast
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERDICT = "tests/reports/test_verdict_table.py"
BROWSER = "tests/reports/test_browser.py"
EXPORT = "tests/reports/test_export.py"

MET: dict[str, tuple[str, ...]] = {
    "F1 green while drowning": (f"{VERDICT}::overloaded", f"{VERDICT}::none keeps up"),
    "F2 warnings written and never shown": (
        f"{EXPORT}::test_the_terminal_fits_80_columns_and_says_the_load",
        "tests/reports/test_build.py::test_warnings_are_in_the_head",
        "tests/sim/cost/test_table.py::test_a_profile_of_another_kv_type_is_told",
    ),
    "F3 a sweep over rates called different traces": (
        f"{VERDICT}::sweep over rate",
        "tests/reports/test_build.py::test_the_same_trace_at_another_rate_is_a_sweep_of_one_policy",
    ),
    "F4 'measured fits best', what wasn't recorded shown as 0": (
        f"{VERDICT}::predicted and measured",
        f"{EXPORT}::test_what_a_measured_run_did_not_record_is_not_zero",
    ),
    "F5 a winner between two cost models": (
        f"{VERDICT}::two cost models",
        f"{VERDICT}::two constants",
    ),
    "F6 fp8 lossy or not by its spelling": (f"{VERDICT}::lossy by storage",),
    "F7 block size 1 fits best": (f"{VERDICT}::ties", f"{VERDICT}::tie with a modifier"),
    "F8 a button that uploads": (f"{BROWSER}::test_no_button_sends_a_chart_anywhere",),
    "F9 print loses rows": (f"{BROWSER}::test_print_keeps_every_row",),
    "F10 wrong suggestions": (
        "tests/sim/memory/test_hardware.py"
        "::test_a_name_of_the_driver_or_of_a_family_names_its_devices",
        "tests/workloads/test_bad_input.py::test_a_name_that_is_nearly_one_is_offered",
        "tests/sim/memory/test_ledger.py::test_a_cache_that_is_too_large_is_what_must_shrink",
    ),
    "F11 cut at 80 columns": ("tests/e2e/test_80_columns.py::test_nothing_is_cut",),
    "F12 best of equals": ("tests/reports/test_comparison.py::test_the_best_is_marked",),
    "F13 units jump": (
        "tests/reports/test_build.py::test_one_unit_a_family_whatever_the_statistic",
    ),
    "F14 a stale page in docs": ("tests/e2e/test_new_users.py::test_no_page_lies_in_docs",),
    "F15 a profile given as --cost": (
        "tests/sim/cost/test_table.py::test_a_kernel_profile_given_as_cost_says_where_it_belongs",
    ),
    "F16 Ctrl-C in the first second": (
        "tests/e2e/test_new_users.py::test_an_early_interrupt_has_no_traceback",
        "tests/e2e/test_endings.py::test_workers_end_with_their_parent",
    ),
    "F17 no share and no time left": (
        "tests/sim/run/test_progress.py::test_a_run_tells_its_share_and_the_time_left",
    ),
}


@pytest.mark.parametrize("fault", MET)
def test_each_fault_has_its_test(fault: str) -> None:
    for test in MET[fault]:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        cases = {
            key.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Dict)
            for key in node.keys
            if isinstance(key, ast.Constant)
        }
        assert name in functions | cases, test


def test_no_page_lies_in_docs() -> None:
    """A page made once grows old; `validate` and `compare-run` write theirs anew."""
    assert list((ROOT / "docs").rglob("*.html")) == []


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.4, 1.0])
def test_an_early_interrupt_has_no_traceback(tmp_path: Path, delay_s: float) -> None:
    """Whether it comes while modules load, workers start or steps run."""
    command = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print('up', flush=True); "
        "from sim.start import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command, "simulate", "azure-2023-conv", "--no-fast-forward",
         "--model", "llama-2-7b", "--gpu", "a100-40gb", "--no-report", "--jobs", "2", "-o", "runs"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(delay_s)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=60)
    assert said in ("", "kvtwin: interrupted, nothing was written\n")
    assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT)
    assert list(tmp_path.iterdir()) == []
