"""The JSON of vLLM's own benchmark client, made from a run whose stamps are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.measured.comparison import compare
from sim.measured.prediction import prediction
from sim.measured.read import read_measured
from sim.run.simulation import execute
from workloads.errors import InputError

BENCH: dict[str, Any] = {
    "model_id": "meta-llama/Llama-3.1-8B",
    "input_lens": [30, 10, 20, 5],
    "output_lens": [3, 1, 0, 2],
    "ttfts": [0.5, 0.25, 0.0, 1.0],
    "itls": [[0.1, 0.2], [], [], [0.5]],
    "start_times": [101.0, 100.0, 102.0, 104.0],
    "errors": ["", "", "connection reset", ""],
    "generated_texts": ["a", "b", "", "c"],
}


def written(folder: Path, **changes: object) -> str:
    file = folder / "bench.json"
    file.write_text(json.dumps({**BENCH, **changes}))
    return str(file)


def test_stamps_by_hand(tmp_path: Path) -> None:
    run = read_measured(written(tmp_path))
    assert run.trace.arrival_s.tolist() == [0.0, 1.0, 4.0]
    assert run.trace.prompt_tokens.tolist() == [10, 30, 5]
    assert run.output_tokens.tolist() == [1, 3, 2]
    assert run.first_token_s.tolist() == [0.25, 1.5, 5.0]
    assert run.last_token_s == pytest.approx([0.25, 1.8, 5.5])
    assert run.trace.provenance.dropped == {"failed or without a token": 1}


def test_the_client_s_file_says_what_the_engine_s_stamps_say(tmp_path: Path) -> None:
    """The shipped run as its client would have saved it: the same errors, no time series."""
    shipped = read_measured("rtx-4090-llama-3.1-8b")
    arrival, outputs = shipped.trace.arrival_s, shipped.output_tokens
    gaps = (shipped.last_token_s - shipped.first_token_s) / np.maximum(outputs - 1, 1)
    file = written(
        tmp_path,
        input_lens=shipped.trace.prompt_tokens.tolist(),
        output_lens=outputs.tolist(),
        ttfts=(shipped.first_token_s - arrival).tolist(),
        itls=[[gap] * (n - 1) for gap, n in zip(gaps.tolist(), outputs.tolist(), strict=True)],
        start_times=(arrival + 5000.0).tolist(),
        errors=[""] * len(outputs),
    )
    client = read_measured(file)
    assert not client.records_kv
    run = execute(prediction(shipped))
    wanted = {error.name: error.measured for error in compare(shipped, run)}
    found = {error.name: error.measured for error in compare(client, run)}
    assert set(wanted) - set(found) == {"running_mean", "waiting_mean", "kv_cache_usage_perc"}
    for name, value in found.items():
        assert value == pytest.approx(wanted[name], rel=1e-6), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start_times": None}, "lacks start_times; expected what vllm bench serve"),
        ({"ttfts": [0.5]}, "differ in length, expected one a request"),
        ({"ttfts": [0.5, "x", 0, 0]}, "request 1: expected times of at least 0 in seconds"),
        ({"input_lens": [30, -1, 2, 5]}, "input_lens: expected whole numbers of at least 1"),
        ({"output_lens": [0, 0, 0, 0]}, "no request got a token"),
    ],
)
def test_bad_files(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_measured(written(tmp_path, **changes))


def test_what_is_no_json(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text("[")
    with pytest.raises(InputError, match="not JSON"):
        read_measured(str(file))


def test_what_a_client_does_not_tell_names_its_file_and_the_option(tmp_path: Path) -> None:
    """A client's record has no meta.json beside it, so none is named."""
    file = written(tmp_path)
    with pytest.raises(InputError, match=r"bench\.json.* on which GPU; expected --gpu") as error:
        prediction(read_measured(file))
    assert "meta.json" not in str(error.value)
    with pytest.raises(InputError, match=r"bench\.json.* expected --engine.* or --server-log"):
        prediction(read_measured(file), gpu="h100")
    nameless = read_measured(written(tmp_path, model_id=None))
    with pytest.raises(InputError, match=r"bench\.json.* which model; expected --model"):
        prediction(nameless, gpu="h100")
