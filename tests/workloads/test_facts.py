"""The shipped traces, against numbers found independently from the published files."""

import hashlib

import numpy as np
import pytest

from workloads import read_lengths, read_trace
from workloads.catalog import SHIPPED
from workloads.describe import describe

# prompt p50, p90, p99, mean; output the same; span, rate, inter-arrival CV: to the digits printed
FACTS = {
    "azure-2023-code": (
        8819,
        ("1469.0", "5187.6", "7436.0", "2047.8"),
        ("13.0", "55.0", "251.5", "27.9"),
        ("3435.95", "2.5667", "13.151"),
    ),
    "azure-2023-conv": (
        19366,
        ("1020.0", "2734.5", "4142.0", "1154.7"),
        ("129.0", "424.0", "601.0", "211.1"),
        ("3501.72", "5.5304", "1.094"),
    ),
    "mooncake-conversation": (
        12031,
        ("6909.0", "27367.0", "85400.4", "12035.1"),
        ("350.0", "597.0", "1118.5", "342.6"),
        ("3537.00", "3.4015", "3.034"),
    ),
    "mooncake-synthetic": (
        3993,
        ("11587.0", "38611.2", "66456.2", "15325.5"),
        ("69.0", "389.0", "768.1", "149.1"),
        ("1022.02", "3.9069", "1.011"),
    ),
}
PREFIX_FACTS = {
    "mooncake-conversation": (512, 182_790, 288_500, ".3664"),
    "mooncake-synthetic": (512, 43_924, 121_877, ".6396"),
}


@pytest.mark.parametrize("name", FACTS)
def test_published_facts(name: str) -> None:
    rows, prompt, output, (span, rate, cv) = FACTS[name]
    found = describe(read_trace(name))
    assert found.requests == found.provenance.rows_read == rows
    assert found.provenance.dropped == {}
    assert found.provenance.notes == ()
    for stats, expected in ((found.prompt_tokens, prompt), (found.output_tokens, output)):
        shown = tuple(f"{x:.1f}" for x in (stats.p50, stats.p90, stats.p99, stats.mean))
        assert shown == expected
    assert found.span_s == pytest.approx(float(span), abs=0.0051)
    assert f"{found.request_rate:.4f}" == rate
    assert f"{found.inter_arrival_cv:.3f}" == cv


def test_gaps_are_those_of_the_whole_wherever_a_part_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = read_trace("azure-2023-code")
    gaps = np.diff(trace.arrival_s)
    monkeypatch.setattr("workloads.spool.ROWS", 1000)
    assert describe(trace).inter_arrival_cv == pytest.approx(gaps.std() / gaps.mean(), rel=1e-12)


@pytest.mark.parametrize("name", PREFIX_FACTS)
def test_published_prefix_facts(name: str) -> None:
    block_tokens, unique, blocks, repeated = PREFIX_FACTS[name]
    prefix = describe(read_trace(name)).prefix
    assert prefix is not None
    assert (prefix.block_tokens, prefix.unique_blocks, prefix.blocks) == (
        block_tokens,
        unique,
        blocks,
    )
    assert f"{prefix.repeated:.4f}"[1:] == repeated


def test_azure_arrivals_are_exact_to_the_tick() -> None:
    trace = read_trace("azure-2023-code")
    assert trace.arrival_s[:3].tolist() == [0.0, 0.052, 0.098189]
    assert trace.arrival_s[-1] == 3435.948056


def test_mooncake_ties_keep_file_order() -> None:
    trace = read_trace("mooncake-conversation")
    assert int((trace.arrival_s[1:] == trace.arrival_s[:-1]).sum()) == 10_851
    assert trace.prompt_tokens[:3].tolist() == [6758, 7322, 7236]


@pytest.mark.parametrize(
    ("name", "rows", "prompt_total", "output_total"),
    [
        ("sharegpt-lengths", 30_731, 71_911_571, 13_481_988),
        ("arxiv-lengths", 28_257, 73_131_321, 8_234_948),
    ],
)
def test_lengths(name: str, rows: int, prompt_total: int, output_total: int) -> None:
    lengths = read_lengths(name)
    assert len(lengths) == rows
    assert lengths.prompt_tokens.sum() == prompt_total
    assert lengths.output_tokens.sum() == output_total


def test_catalog_is_complete() -> None:
    folder = SHIPPED[0].path.parent
    readme = (folder / "README.md").read_text()
    shipped = {entry.file for entry in SHIPPED}
    data = {file.name for file in folder.iterdir() if not file.name.startswith(".")}
    assert data == shipped | {"README.md"} | {f for f in data if f.startswith("LICENSE.")}
    assert len({entry.name for entry in SHIPPED}) == len(SHIPPED)
    for entry in SHIPPED:
        assert entry.path.is_file()
        assert f"`{entry.name}` | `{entry.file}`" in readme
        assert f"| {entry.licence} |" in readme


def test_azure_files_are_unmodified() -> None:
    hashes = {
        entry.name: hashlib.sha256(entry.path.read_bytes()).hexdigest()[:16]
        for entry in SHIPPED
        if entry.format == "azure"
    }
    assert hashes == {"azure-2023-conv": "2f1e5b666d4e3055", "azure-2023-code": "54e9a6d2a4bd06ba"}
