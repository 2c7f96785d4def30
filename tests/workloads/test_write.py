"""The project's own schema: written whole or not at all, read back the same."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import InputError, PrefixBlocks, Provenance, Trace, read_trace
from workloads import write as write_module
from workloads.write import write_trace

SUFFIXES = (".csv", ".jsonl", ".parquet")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    requests = draw(st.integers(1, 6))
    gaps = draw(st.lists(st.floats(0, 1e9), min_size=requests - 1, max_size=requests - 1))
    tokens = st.lists(st.integers(1, 40), min_size=requests, max_size=requests)
    prompt = np.array(draw(tokens), np.int64)
    prefix = None
    if draw(st.booleans()):
        block_tokens = draw(st.integers(1, 20))
        counts = -(-prompt // block_tokens)
        total = int(counts.sum())
        ids = draw(st.lists(st.integers(-1, 1 << 60), min_size=total, max_size=total))
        offsets = np.concatenate(([0], np.cumsum(counts)))
        prefix = PrefixBlocks(block_tokens, offsets, np.array(ids, np.int64))
    return Trace(
        name="trace",
        arrival_s=np.cumsum([0.0, *gaps]),
        prompt_tokens=prompt,
        output_tokens=np.array(draw(tokens), np.int64),
        provenance=Provenance("a test", requests),
        prefix=prefix,
    )


@settings(deadline=None, derandomize=True, max_examples=60)
@given(traces(), st.sampled_from(SUFFIXES))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, trace: Trace, suffix: str) -> None:
    path = tmp_path_factory.mktemp("write") / f"trace{suffix}"
    write_trace(trace, path)
    back = read_trace(path)
    assert back.name == "trace"
    for column in ("arrival_s", "prompt_tokens", "output_tokens"):
        assert getattr(back, column).tolist() == getattr(trace, column).tolist()
    if trace.prefix is None:
        assert back.prefix is None
    else:
        assert back.prefix is not None
        assert back.prefix.block_tokens == trace.prefix.block_tokens
        assert back.prefix.offsets.tolist() == trace.prefix.offsets.tolist()
        assert back.prefix.ids.tolist() == trace.prefix.ids.tolist()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_shipped_traces_survive(tmp_path: Path, suffix: str) -> None:
    trace = read_trace("mooncake-synthetic")
    write_trace(trace, tmp_path / f"t{suffix}")
    back = read_trace(tmp_path / f"t{suffix}")
    assert back.prefix is not None
    assert trace.prefix is not None
    np.testing.assert_array_equal(back.arrival_s, trace.arrival_s)
    np.testing.assert_array_equal(back.prefix.ids, trace.prefix.ids)


def test_csv_is_plain(tmp_path: Path) -> None:
    trace = Trace(
        "t",
        np.array([0.0, 0.1]),
        np.array([1, 17]),
        np.array([3, 4]),
        Provenance("a test", 2),
        PrefixBlocks(16, np.array([0, 1, 3]), np.array([5, 5, 6])),
    )
    write_trace(trace, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == (
        b"arrival_s,prompt_tokens,output_tokens,block_tokens,hash_ids\n"
        b"0,1,3,16,5\n0.1,17,4,16,5 6\n"
    )


def test_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    path.write_text("precious")

    def fails_halfway(trace: Trace, unfinished: Path) -> None:
        unfinished.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(write_module._WRITERS, ".csv", fails_halfway)
    with pytest.raises(InputError, match=r"t\.csv: cannot be written: No space left on device"):
        write_trace(read_trace("burstgpt-sample"), path)
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["t.txt", "t", "t.csv.gz"])
def test_unknown_suffix(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"unknown suffix, expected one of: \.csv, \.jsonl"):
        write_trace(read_trace("burstgpt-sample"), tmp_path / name)


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file or directory"):
        write_trace(read_trace("burstgpt-sample"), tmp_path / "none" / "t.csv")


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("precious")
    with pytest.raises(InputError, match=r"x\.csv: cannot be written: Not a directory"):
        write_trace(read_trace("burstgpt-sample"), tmp_path / "a.csv" / "x.csv")
    assert (tmp_path / "a.csv").read_text() == "precious"


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    with pytest.raises(InputError, match="cannot be written: Is a directory"):
        write_trace(read_trace("burstgpt-sample"), tmp_path / "a.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
