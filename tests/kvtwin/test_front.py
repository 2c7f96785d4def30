"""The front door: what a notebook does, from one import."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kvtwin
from kvtwin import (
    InputError,
    Int8,
    Paging,
    Run,
    RunOptions,
    check_policy,
    compare_run,
    read_trace,
    report,
    search,
    simulate,
    size,
    sweep,
)
from sim.measured.comparison import Tolerance

LLAMA = {"model": "llama-2-7b", "gpu": "a100-40gb"}


@pytest.fixture(scope="module")
def run() -> Run:
    return simulate("azure-2023-conv", **LLAMA, first=30, policy=Paging(16) + Int8(32))  # type: ignore[arg-type]


def test_everything_named_is_there() -> None:
    for name in kvtwin.__all__:
        assert getattr(kvtwin, name) is not None, name
    assert set(dir(kvtwin)) == set(kvtwin.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Pages'"):
        _ = kvtwin.Pages  # type: ignore[attr-defined]


def test_the_door_alone_loads_nothing() -> None:
    code = "import kvtwin, sys; print([m for m in ('numpy', 'pandas', 'sim') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_run_is_a_table_in_a_notebook(run: Run) -> None:
    shown = run._repr_html_()
    assert "paging+int8:group=32: llama-2-7b on a100-40gb" in shown
    assert shown.count("<tr>") == len(run.metrics_list)
    assert "<td title='all rows of the trace'>Requests</td>" in shown
    assert "<td style='text-align:right'>30</td>" in shown


def test_a_metric_that_is_not_there(run: Run) -> None:
    assert run["requests"] == 30
    with pytest.raises(KeyError, match="did you mean 'ttft_ms_p99'"):
        _ = run["ttft_p99"]


def test_reports_of_runs_and_of_folders(run: Run, tmp_path: Path) -> None:
    alone = run.report(tmp_path / "one.html")
    assert "paging+int8:group=32" in alone.read_text()
    trace = read_trace("azure-2023-conv")
    other = simulate(trace, **LLAMA, first=30)  # type: ignore[arg-type]
    both = report([run, other], tmp_path / "both.html").read_text()
    assert "paging+int8:group=32" in both
    with pytest.raises(InputError):
        report(tmp_path / "nothing", tmp_path / "x.html")


def test_sizes_are_those_of_the_policies() -> None:
    """A token of Llama 2 7B takes 32 layers × 2 × 4,096 × 2 B = 512 KiB: 8,192 of them in 4 GiB."""
    sized = size("llama-2-7b", "a100-40gb", 4096, policy=Paging(16), kv_cache_memory="4GiB")
    assert sized.ledger.token_bytes == 512 * 1024
    assert sized.sizing.fits[0].requests == 2


def test_a_measured_run_beside_its_prediction() -> None:
    """Its errors are those of its two runs, and no prediction is exact."""
    compared = compare_run("rtx-4090-llama-3.1-8b")
    mean = next(error for error in compared.errors if error.name == "tpot_ms_mean")
    assert mean.measured == compared.measured["tpot_ms_mean"]
    assert mean.predicted == compared.predicted["tpot_ms_mean"]
    assert not compare_run("rtx-4090-llama-3.1-8b", tolerance=Tolerance(0, 0, 0, 0)).within


def test_laws_from_the_front() -> None:
    check_policy(Paging(4), histories=10)


def test_an_option_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no option 'max_seqs'; did you mean 'max_num_seqs'"):
        simulate("azure-2023-conv", **LLAMA, max_seqs=3)  # type: ignore[arg-type]


def test_a_sweep_is_a_data_frame(tmp_path: Path) -> None:
    options = {**LLAMA, "first": 20, "policy": ["paging", "preallocation"], "max_num_seqs": [8, 64]}
    table = sweep("azure-2023-conv", folder=tmp_path / "out", jobs=1, **options)
    assert len(table) == 4
    assert table["finished"].tolist() == [20] * 4
    assert table["policy"].tolist() == ["paging", "paging", "preallocation", "preallocation"]
    one = simulate("azure-2023-conv", **LLAMA, first=20, max_num_seqs=8)  # type: ignore[arg-type]
    assert table["ttft_ms_p99"][0] == one["ttft_ms_p99"]
    more = sweep("azure-2023-conv", folder=tmp_path / "out", jobs=1, **options, block_size=[16, 32])
    assert len(more) == 6
    with pytest.raises(InputError, match="no such option"):
        sweep("azure-2023-conv", **options, windw=[1])


@pytest.mark.parametrize(
    "given",
    ["0.5:1:0.5", "0.5,1", ["0.5", 1.0], (0.5, 1.0), np.array([0.5, 1.0]), ["0.5:1:0.5"]],
    ids=str,
)
def test_values_are_texts_of_the_command_line_or_lists(given: object) -> None:
    table = sweep("azure-2023-conv", **LLAMA, first=5, jobs=1, request_rate=given)
    assert table["request_rate"].tolist() == [0.5, 1.0]


def test_texts_of_every_kind() -> None:
    table = sweep(
        "azure-2023-conv", **LLAMA, first="5", jobs=1, max_num_seqs=range(8, 17, 8),
        policy="paging", block_size="16,32", slo="ttft_p99=2s,tpot_p50=1s", kv_cache_memory="4GiB",
    )  # fmt: skip
    assert table["max_num_seqs"].tolist() == [8, 8, 16, 16]
    assert table["policy"].tolist() == ["paging:block_size=16", "paging:block_size=32"] * 2
    for wrong in ("many", "3:1:1"):
        with pytest.raises(InputError, match="request_rate"):
            sweep("azure-2023-conv", **LLAMA, request_rate=wrong)
    with pytest.raises(InputError, match="model: missing"):
        sweep("azure-2023-conv", gpu="h100")


def test_a_search_says_what_to_start() -> None:
    answer = search(
        "azure-2023-conv", **LLAMA, first=30, slo="ttft_p90=1s", resolution=1.0,
        max_num_seqs=[2, 64],
    )  # fmt: skip
    assert answer.best is not None
    assert answer.best.point["max_num_seqs"] == 64
    assert "vllm serve meta-llama/Llama-2-7b-hf" in answer.text
    assert set(answer.runs["max_num_seqs"]) == {2, 64}


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"batching": "sttic"}, 'batching "sttic": expected continuous or static'),
        ({"preemption": "bogus"}, 'preemption "bogus": expected recompute or swap'),
        ({"victim": "bogus"}, 'victim "bogus": expected last, longest or shortest'),
        ({"replay": "bogus"}, 'replay "bogus": expected answers, stamps or both'),
        ({"first": "5"}, 'first "5": expected a whole number'),
        ({"first": 2.5}, "first 2.5: expected a whole number"),
        ({"first": True}, "first True: expected a whole number"),
        ({"max_num_seqs": 2.5}, "max_num_seqs 2.5: expected a whole number"),
        ({"request_rate": "2"}, 'request_rate "2": expected a number'),
        ({"gpu_memory_utilization": "0.9"}, 'gpu_memory_utilization "0.9": expected a number'),
        ({"seed": "x"}, 'seed "x": expected a whole number'),
        ({"fast_forward": 1}, "fast_forward 1: expected True or False"),
        (
            {"warm_up": 2.5},
            "warm_up 2.5: expected text such as 300s, or a whole number of requests",
        ),
        ({"warm_up": True}, "warm_up True: expected text such as 300s, or a whole number"),
        ({"warm_up": -1}, "--warm-up -1: expected a number of requests"),
        ({"slo": {"ttft": 2}}, "slo {'ttft': 2}: expected text such as ttft_p99=2s"),
        ({"price": {"h100": 2}}, "price {'h100': 2}: expected text such as h100=2.50/h"),
        ({"policy": ["paging"]}, "policy ['paging']: expected a policy such as Paging(16), or"),
        ({"policy": 16}, "policy 16: expected a policy such as Paging(16), or text"),
        ({"policy": Paging}, "or text, made: Paging(...)"),
        ({"gpu": 3}, "gpu 3: expected a preset's name"),
        ({"cost": 3}, "cost 3: expected roofline"),
    ],
    ids=str,
)
def test_options_of_another_type_are_refused(option: dict[str, object], message: str) -> None:
    """As the command line's parser refuses them: nothing runs as something else."""
    with pytest.raises(InputError) as caught:
        simulate("azure-2023-conv", **{**LLAMA, "first": 5, **option})  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    options = RunOptions(model="llama-2-7b", first=np.int64(5), request_rate=np.float32(0.5))  # type: ignore[arg-type]
    assert (type(options.first), options.first) == (int, 5)
    assert (type(options.request_rate), options.request_rate) == (float, 0.5)
