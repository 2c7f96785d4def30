"""The calibrated cost model: exact on what was measured, linear between, honest beyond."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sim.cost.steps.model import Calibrated, interpolate
from sim.cost.steps.table import CostTable, ModelKey, read_table
from sim.model.presets import find_model
from sim.plan import AS_PER_S, Chunk, StepPlan
from sim.policy.registry import parse_policy
from workloads.errors import InputError

TOKEN = 4096
MODEL = find_model("llama-small")
PAGING = parse_policy("paging:block_size=16")


def table(kept: int | None = None, policy: str = "paging:block_size=16") -> CostTable:
    """Steps of 1 ms + 0.1 ms a token, and attention of 1 µs a token read."""
    lines = [
        {
            "batch": batch,
            "context": [2, 100, 1000],
            "seconds": [1e-3 + batch * (1e-4 + context * 1e-6) for context in (2, 100, 1000)],
        }
        for batch in (1, 4, 8)
    ]
    chunks = [
        {
            "tokens": tokens,
            "past": [0, 1000],
            "seconds": [1e-3 + tokens * (1e-4 + past * 1e-8) for past in (0, 1000)],
        }
        for tokens in (1, 64, 256)
    ]
    return CostTable.model_validate(
        {
            "schema_version": 1,
            "kind": "kvtwin cost table",
            "created_at": "2026-01-01T00:00:00+00:00",
            "versions": {},
            "hardware": {
                "kind": "cpu",
                "name": "test",
                "threads": 1,
                "memory_bytes": 2**34,
                "copy_bytes_per_s": 10**10,
                "matmul_flops_per_s": 10**11,
                "clock": "none",
            },
            "model": {
                "name": MODEL.name,
                "parameters": MODEL.parameters,
                "dtype_bytes": MODEL.dtype_bytes,
            },
            "method": "made up",
            "elapsed_s": 0.0,
            "dense": {"knots": [1, 256], "seconds": [1.1e-3, 1e-3 + 256e-4]},
            "sampling": {"knots": [0, 1, 8], "seconds": [-1e-5, 0.0, 7e-5]},
            "sections": [
                {
                    "policy": policy,
                    "kv_dtype": "auto",
                    "token_bytes": TOKEN,
                    "kept_tokens": kept,
                    "decode": lines,
                    "prefill": chunks,
                }
            ],
        }
    )


def plan(
    decodes: int, context: int, max_steps: int = 1, chunks: tuple[Chunk, ...] = ()
) -> StepPlan:
    read, growth = decodes * context * TOKEN, decodes * TOKEN
    tokens = sum(chunk.tokens for chunk in chunks)
    return StepPlan(
        0, max_steps, decodes, decodes * context, read, growth, tokens, chunks, (), (), ()
    )


def cost(**changes: object) -> Calibrated:
    return Calibrated(table(**changes), MODEL, PAGING, "auto", TOKEN)  # type: ignore[arg-type]


def seconds(plan: StepPlan) -> float:
    return cost().linear(plan)[0] / AS_PER_S


@pytest.mark.parametrize(("batch", "context"), [(1, 2), (4, 100), (8, 1000), (6, 50), (3, 500)])
def test_decode_steps_cost_what_was_measured(batch: int, context: int) -> None:
    expected = 1e-3 + batch * (1e-4 + context * 1e-6)
    assert seconds(plan(batch, context)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("tokens", "past"), [(1, 0), (64, 1000), (256, 0), (100, 300)])
def test_chunks_cost_what_was_measured(tokens: int, past: int) -> None:
    expected = 1e-3 + tokens * (1e-4 + past * 1e-8)
    chunk = Chunk(0, past, tokens, True)
    assert seconds(plan(0, 0, chunks=(chunk,))) == pytest.approx(expected, rel=1e-9)


def test_mixed_steps_pay_for_dense_layers_once() -> None:
    mixed = seconds(plan(4, 100, chunks=(Chunk(9, 0, 64, True), Chunk(8, 1000, 32, False))))
    expected = 1e-3 + 100 * 1e-4 + 4 * 100e-6 + 32 * 1000e-8 + 4e-5
    assert mixed == pytest.approx(expected, rel=1e-2)


def test_every_repetition_costs_what_its_own_plan_costs() -> None:
    model = cost()
    for batch, context in ((1, 3), (5, 90), (8, 900), (3, 990), (7, 2000)):
        whole = plan(batch, context, max_steps=300)
        first, growth, valid = model.linear(whole)
        assert 1 <= valid <= 300
        for j in {0, 1, valid // 2, valid - 1}:
            single = whole._replace(read_bytes=whole.read_bytes + j * whole.read_growth_bytes)
            assert model.linear(single)[0] == first + j * growth


def test_beyond_the_table_is_said() -> None:
    model = cost()
    model.linear(plan(4, 100))
    assert model.extrapolated_share == 0
    model.linear(plan(4, 5000))
    model.linear(plan(9, 100))
    assert model.extrapolated_share == pytest.approx(2 / 3)
    assert model.constants[-1].value == pytest.approx(2 / 3)


def test_contexts_that_no_line_beside_the_batch_has_are_beyond() -> None:
    """A pool of 1,000 tokens: one request of up to 1,000 was timed, four of 250, eight of 100."""
    measured = table()
    (section,) = measured.sections
    lines = [
        line.model_copy(update={"context": knots, "seconds": tuple(1e-3 * k for k in knots)})
        for line, knots in zip(section.decode, [(2, 1000), (2, 250), (2, 100)], strict=True)
    ]
    short = measured.model_copy(
        update={"sections": (section.model_copy(update={"decode": tuple(lines)}),)}
    )
    for batch, context, beyond in (
        (1, 999, 0), (4, 249, 0), (4, 250, 1), (4, 900, 1), (3, 900, 0), (6, 200, 0), (6, 300, 1),
        (8, 99, 0), (8, 200, 1),
    ):  # fmt: skip
        model = Calibrated(short, MODEL, PAGING, "auto", TOKEN)
        model.linear(plan(batch, context))
        assert model.extrapolated_share == beyond, (batch, context)


def test_chunks_that_no_line_beside_theirs_has_are_beyond() -> None:
    """One token was timed after up to 1,000, 64 after up to 500, 256 after none; steps of 512."""
    measured = table()
    (section,) = measured.sections
    lines = [
        line.model_copy(update={"past": knots, "seconds": tuple(1e-3 + 1e-6 * k for k in knots)})
        for line, knots in zip(section.prefill, [(0, 1000), (0, 500), (0,)], strict=True)
    ]
    dense = measured.dense.model_copy(update={"knots": (1, 512)})
    short = measured.model_copy(
        update={"dense": dense, "sections": (section.model_copy(update={"prefill": lines}),)}
    )
    for tokens, past, beyond in (
        (1, 1000, 0), (1, 1001, 1), (64, 500, 0), (64, 501, 1), (256, 0, 0), (256, 1, 1),
        (10, 900, 0), (100, 400, 0), (100, 600, 1), (257, 0, 1),
    ):  # fmt: skip
        model = Calibrated(short, MODEL, PAGING, "auto", TOKEN)
        model.linear(plan(0, 0, chunks=(Chunk(0, past, tokens, True),)))
        assert model.extrapolated_share == beyond, (tokens, past)


def test_windows_read_no_more_than_they_keep() -> None:
    chunk = (Chunk(0, 4000, 64, True),)
    capped, at_cap = cost(kept=500), plan(0, 0, chunks=(Chunk(0, 500, 64, True),))
    assert capped.linear(plan(0, 0, chunks=chunk)) == capped.linear(at_cap)


def test_other_models_and_policies_are_refused() -> None:
    with pytest.raises(InputError, match=r"measured with llama-small .*, not with llama-3-8b"):
        Calibrated(table(), find_model("llama-3-8b"), PAGING, "auto", TOKEN)
    with pytest.raises(InputError, match="has no such policy with auto KV, only preallocation"):
        Calibrated(table(policy="preallocation"), MODEL, PAGING, "auto", TOKEN)


def test_other_windows_are_refused() -> None:
    """Layers with windows read less: as many parameters, and other times."""
    content = json.loads(table().model_dump_json())
    content["model"]["windows"] = [0] * 4
    known = CostTable.model_validate(content)
    Calibrated(known, MODEL, PAGING, "auto", TOKEN)
    (group,) = MODEL.groups
    other = replace(MODEL, groups=(replace(group, kind="window", window=64),))
    with pytest.raises(InputError, match="whose layers have other windows"):
        Calibrated(known, other, PAGING, "auto", TOKEN)
    assert ModelKey.of(MODEL) == known.model


def test_a_table_of_another_token_size_is_refused() -> None:
    """Reads are bytes: with tokens of 17 B for 4,096 every context would be 240 times as long."""
    content = json.loads(table().model_dump_json())
    content["sections"][0]["token_bytes"] = 17
    other = CostTable.model_validate(content)
    with pytest.raises(InputError, match="token_bytes of paging:block_size=16 is 17, but a token "):
        Calibrated(other, MODEL, PAGING, "auto", TOKEN)


def changed(content: Any, place: str, value: object) -> Any:
    """The content with one place, such as `sections.0.decode.1.batch`, changed."""
    *path, last = [int(word) if word.isdigit() else word for word in place.split(".")]
    part = content
    for step in path:
        part = part[step]
    part[last] = value
    return content


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("sections.0.token_bytes", 0, "sections.0.token_bytes: .*greater than or equal to 1"),
        ("sections.0.kept_tokens", -3, "sections.0.kept_tokens: .*greater than or equal to 1"),
        ("sections.0.decode.1.batch", 1, "decode: batch: expected ascending lines, each size once"),
        ("sections.0.decode.0.batch", 0, "decode.0.batch: .*greater than or equal to 1"),
        ("sections.0.decode.0.batch", -1, "decode.0.batch: .*greater than or equal to 1"),
        ("sections.0.decode.2.batch", 3, "decode: batch: expected ascending lines"),
        ("sections.0.decode.0.context.0", -2, "context.0: .*greater than or equal to 1"),
        ("sections.0.prefill.2.tokens", 64, "prefill: tokens: expected ascending lines"),
        ("sections.0.prefill.0.past.0", -1, "past.0: .*greater than or equal to 0"),
        ("sections.0.decode", [], "sections.0.decode: .*at least 1 item"),
        ("sections.0.prefill", [], "sections.0.prefill: .*at least 1 item"),
        ("sections.0.decode.0.seconds.1", 1e300, "seconds.1: .*less than or equal to 1000000"),
        ("dense.seconds.0", float("nan"), "cost.json: not JSON: NaN is no number"),
        ("hardware.copy_bytes_per_s", 0, "copy_bytes_per_s: .*greater than or equal to 1"),
        ("hardware.matmul_flops_per_s", -5, "matmul_flops_per_s: .*greater than or equal to 1"),
    ],
)
def test_sizes_of_a_file_are_checked(
    tmp_path: Path, place: str, value: object, message: str
) -> None:
    file = tmp_path / "cost.json"
    file.write_text(json.dumps(changed(json.loads(table().model_dump_json()), place, value)))
    with pytest.raises(InputError, match=message):
        read_table(file)


def test_a_section_is_there_once(tmp_path: Path) -> None:
    content = json.loads(table().model_dump_json())
    content["sections"] *= 2
    file = tmp_path / "cost.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"paging:block_size=16 \(auto\) is there twice"):
        read_table(file)


def test_a_step_takes_time() -> None:
    """Steps of 1 request measured at 2 ms for 2 tokens and at 1 ms for 100 go down by 10.2 us a
    token: 0 is reached with 198 tokens, and there is no such step."""
    content = json.loads(table().model_dump_json())
    line = {"batch": 1, "context": [2, 100], "seconds": [2e-3, 1e-3]}
    content["sections"][0]["decode"] = [line]
    model = Calibrated(CostTable.model_validate(content), MODEL, PAGING, "auto", TOKEN)
    first, growth, valid = model.linear(plan(1, 150, 300))
    assert first > 0 > growth
    assert first + (valid - 1) * growth > 0
    assert 150 + valid <= 198 + 1
    with pytest.raises(InputError, match="its times fall too steeply"):
        model.linear(plan(1, 250))


def test_files_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    file.write_text(table().model_dump_json())
    assert read_table(file) == table()
    content = json.loads(file.read_text())
    del content["sections"][0]["decode"][0]["seconds"]
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"sections\.0\.decode\.0\.seconds: field required"):
        read_table(file)


@pytest.mark.parametrize(
    ("line", "values", "message"),
    [
        ("seconds", [1e-3], "dense: .*knots and 1 seconds, expected as many"),
        ("seconds", None, "expected seconds above 0"),
        ("knots", None, "dense: .*expected ascending knots"),
    ],
)
def test_lines_of_a_file_are_checked(
    tmp_path: Path, line: str, values: list[float] | None, message: str
) -> None:
    content = json.loads(table().model_dump_json())
    dense = content["dense"]
    wrong = [-1.0] * len(dense["knots"]) if line == "seconds" else [1] * len(dense["knots"])
    dense[line] = values or wrong
    file = tmp_path / "cost.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_table(file)


def test_interpolation() -> None:
    assert interpolate((1, 3), (10.0, 30.0), 2) == 20.0
    assert interpolate((1, 3), (10.0, 30.0), 5) == 50.0
    assert interpolate((7,), (10.0,), 5) == 10.0
