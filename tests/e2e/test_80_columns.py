"""Tables are whole on a terminal of 80 columns: nothing is cut, no line wraps."""

import json

import pytest

from reports.validation import print_rows
from sim.cli import app

COMPARED = "compare-policies azure-2023-conv --model llama-2-13b --gpu a100-40gb --first 20"
TABLES = [
    *(f"list {what}" for what in ("models", "gpus", "policies", "engines", "profiles", "traces")),
    "traces describe azure-2023-conv",
    COMPARED,
    "compare-run rtx-4090-llama-3.1-8b",
]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.console.WIDTH", 80)


def printed(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit):
        app(command.split(), exit_on_error=False, print_error=False)
    return capsys.readouterr().out


def squeezed(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("command", TABLES)
def test_nothing_is_cut(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(command, capsys)
    assert len(out.splitlines()) > 3
    assert "…" not in out
    rows = [line for line in out.splitlines() if "  " in line.strip()]  # of tables
    assert max(len(line.rstrip()) for line in rows) <= 80


def test_policies_have_every_number_and_name(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(COMPARED + " --json", capsys))
    out = printed(COMPARED, capsys)
    for row in rows:
        assert f"{row['read_bytes'] / 2**30:,.2f}" in out
        assert f"{row['unused_bytes'] / 2**30:,.2f}" in out
        assert all(part in squeezed(out) for part in row["policy"].split("+"))
        assert all(word in out for word in row["gives_up"].split())


def test_a_validation_has_every_byte_and_its_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "policy": "sliding_window:window=512,sinks=4", "name": "kv_bytes",
        "label": "KV tensors of the device", "unit": "bytes", "predicted": 134_217_728,
        "measured": 134_217_728, "error_percent": -12.5, "spread_percent": 100.5,
        "tolerance_percent": 0.0, "passed": True,
    }  # fmt: skip
    print_rows({"schema_version": 1, "passed": True, "rows": [row], "repeats": 5})
    out = capsys.readouterr().out
    for whole in ("134,217,728", "-12.5", "100.5", "exact", "passed", "KV tensors", "the device"):
        assert whole in out
    assert max(map(len, out.splitlines())) <= 80
