"""A name for what decides a run: equal for equal contents, on any machine."""

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from sim.policy import plugins
from sim.policy.registry import label_of
from sim.policy.spec import Policy
from sim.run.options import RunOptions
from workloads.errors import InputError
from workloads.schema import Trace


def key_of(trace_digest: str, options: RunOptions) -> str:
    """The run's name: 64 hexadecimal digits over the trace, every option, and kvtwin's version."""
    found = hashlib.sha256()
    code = [Path(str(module.__file__)).read_bytes() for module in plugins.modules]
    _feed(found, (_version(), trace_digest, options, code))
    return found.hexdigest()


def trace_digest(trace: Trace) -> str:
    """Over its columns alone: not its name, nor where it was read."""
    found = hashlib.sha256()
    _feed(found, (trace.arrival_s, trace.prompt_tokens, trace.output_tokens))
    _feed(found, (trace.prefix, trace.turns))
    return found.hexdigest()


def self_contained(options: RunOptions) -> RunOptions:
    """The options with what their files hold in place of paths: a worker elsewhere has no files.

    Raises InputError where a file can't be read.
    """
    model, cost, profile = options.model, options.cost, options.profile
    if isinstance(model, str | Path) and Path(model).exists():
        from sim.model.presets import find_model
        from sim.run.engine_presets import find_engine

        engine = options.engine
        casts = (find_engine(engine) if isinstance(engine, str) else engine).casts
        options = replace(options, model=find_model(str(model), casts))
    named = "table:profile="
    if isinstance(cost, str) and cost.startswith(named):
        if profile is not None:
            raise InputError(f"--cost {cost}: names a profile, expected no --profile beside it")
        cost, profile = "table", cost.removeprefix(named)
        options = replace(options, cost=cost, profile=profile)
    if isinstance(profile, str | Path) and Path(profile).exists():
        from sim.cost.kernels.profile import find_profile

        options = replace(options, profile=find_profile(str(profile)))
    if isinstance(cost, str | Path) and Path(cost).is_file():
        from sim.cost.steps.table import read_table

        options = replace(options, cost=read_table(Path(cost)))
    return options


def settings_of(options: RunOptions) -> dict[str, str | int | float | bool | None]:
    """Every option as one cell of a table."""
    found: dict[str, str | int | float | bool | None] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if isinstance(value, Policy):
            value = label_of(value)
        elif not isinstance(value, str | int | float | bool | None):
            value = getattr(value, "name", None) or str(value)
        found[field.name] = value
    return found


@cache
def _version() -> str:
    try:
        return version("kvtwin")
    except PackageNotFoundError:
        return "not installed"


def _feed(found: "hashlib._Hash", value: Any) -> None:
    """Contents with their kinds and lengths, so that no two values are fed alike."""
    if isinstance(value, np.ndarray):
        found.update(f"array {value.dtype.str} {value.shape} ".encode())
        found.update(np.ascontiguousarray(value).tobytes())
    elif is_dataclass(value) and not isinstance(value, type):
        found.update(f"{type(value).__qualname__} ".encode())
        _feed(found, {field.name: getattr(value, field.name) for field in fields(value)})
    elif isinstance(value, Mapping):
        found.update(f"mapping {len(value)} ".encode())
        for key in sorted(value, key=repr):
            _feed(found, key)
            _feed(found, value[key])
    elif isinstance(value, tuple | list):
        found.update(f"list {len(value)} ".encode())
        for one in value:
            _feed(found, one)
    elif hasattr(value, "model_dump"):  # pydantic's
        _feed(found, value.model_dump())
    else:
        text = repr(value).encode()
        found.update(f"{type(value).__name__} {len(text)} ".encode() + text)
