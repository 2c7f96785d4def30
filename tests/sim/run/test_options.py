"""Options of a run: one spelling for the command line and Python, things for names."""

from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.hardware import find_device
from sim.model.presets import find_model
from sim.policy.paging import Paging
from sim.policy.registry import BUILT_IN, label_of, parse_policy
from sim.policy.sliding_window import SlidingWindow
from sim.policy.storage import Int8
from sim.run.costs import FixedCost
from sim.run.engine_presets import find_engine
from sim.run.options import RunOptions
from sim.run.simulation import Setup, execute, prepare, prepared, simulate, start
from workloads.errors import InputError
from workloads.schema import Provenance, Trace

TRACE = Trace(
    "two",
    np.array([0.0, 0.5]),
    np.array([100, 30]),
    np.array([20, 40]),
    Provenance("by hand", 2),
)
LLAMA = {"model": "llama-2-7b", "gpu": "a100-40gb"}


def made(**options: object) -> Setup:
    return prepare(TRACE, **{**LLAMA, **options})  # type: ignore[arg-type]


def test_things_are_taken_where_text_names_them() -> None:
    policy = Paging(16) + SlidingWindow(window=64) + Int8(32)
    by_text = made(
        policy="paging:block_size=16+sliding_window:window=64+int8:group=32",
        kv_cache_memory="4GiB",
        engine="default",
        cost="fixed:seconds=0.02",
    )
    by_thing = prepare(
        TRACE,
        model=find_model("llama-2-7b"),
        gpu=find_device("a100-40gb"),
        policy=policy,
        kv_cache_memory=4 << 30,
        engine=find_engine("default"),
        cost=FixedCost(0.02),
    )
    assert by_thing.policy == by_text.policy
    assert (by_thing.pool, by_thing.limits, by_thing.own_cost) == (
        by_text.pool,
        by_text.limits,
        by_text.own_cost,
    )
    assert by_thing.label == "paging+sliding_window:window=64+int8:group=32"


def test_a_trace_and_a_model_are_files_too(tmp_path: Path) -> None:
    trace = tmp_path / "mine.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,10,5\n1,20,5\n")
    setup = prepare(trace, first=1, **LLAMA)  # type: ignore[arg-type]
    assert setup.trace.prompt_tokens.tolist() == [10]


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_label_names_the_policy_again(name: str) -> None:
    spec = name if name in ("preallocation", "growing", "chunked", "paging", "virtual") else None
    policy = parse_policy(spec or f"paging+{name}")
    assert parse_policy(label_of(policy)) == policy


def test_keywords_and_options_are_the_same() -> None:
    """Every field of RunOptions is a keyword, and shown as one."""
    shown = list(signature(simulate).parameters)
    assert shown == ["trace", *signature(RunOptions).parameters]
    assert made(tp=2) == prepared(TRACE, RunOptions(model="llama-2-7b", gpu="a100-40gb", tp=2))


def test_steps_of_a_fixed_time() -> None:
    """The first request alone: a step that prefills, then 19 more; 50 ms each."""
    run = execute(made(cost="fixed:seconds=0.05", first=1))
    assert run["makespan_s"] == 20 * 0.05


@pytest.mark.parametrize("engine", ["default", "vllm-0.19"])
def test_the_loop_is_the_one_that_the_rules_ask_for(engine: str) -> None:
    loop: Any = start(made(engine=engine)).effects
    assert loop.gi_code.co_name == ("serve_ahead" if engine == "vllm-0.19" else "serve")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gpu": None}, "--gpu: missing; expected a device, or --cost with a measured one"),
        ({"cost": "fixed:seconds=0"}, "fixed: seconds=0.0, expected more than 0"),
        ({"cost": "fixed:pace=1"}, "fixed has no option 'pace'; expected one of seconds"),
        ({"cost": "fixed:seconds"}, "'seconds', expected option=value"),
        (
            {"cost": "rooflin"},
            "--cost rooflin: No such file or directory; did you mean 'roofline'?",
        ),
        ({"cost": "x.json"}, "expected fixed, roofline, table or a file of kvtwin calibrate"),
        ({"cost": "roofline:foo=1"}, "--cost roofline:foo=1: roofline takes no options"),
        ({"cost": "roofline:foo"}, "'foo', expected option=value"),
        ({"cost": "table:file=x"}, "table has no option 'file', expected profile"),
        ({"cost": "table:profile=x", "profile": "y"}, "expected no --profile beside it"),
        ({"cost": "roofline", "profile": "y"}, "reads no --profile, expected --cost table"),
        ({"kv_cache_memory": "4"}, "--kv-cache-memory=4: expected a number and a unit"),
        ({"swap_space": 1.5}, "--swap-space=1.5: expected whole bytes, or text such as 12GiB"),
        ({"horizon": 1e-19}, "--horizon 1e-19: expected at least 1e-09 s, a tick of the clock"),
        ({"horizon": float("nan")}, "--horizon nan: expected at least 1e-09 s"),
        ({"horizon": -1.0}, "--horizon -1: expected at least 1e-09 s"),
        ({"engine": "vllm-0.9"}, "no such engine; did you mean 'vllm-0.19'?"),
        ({"gpu": "custom:memory"}, "'memory', expected option=value"),
        ({"policy": "pagng"}, "no policy 'pagng'; did you mean 'paging'?"),
    ],
)
def test_mistakes_are_one_line(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        made(**options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
