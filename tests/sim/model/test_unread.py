"""Configurations of families that nobody read while the readers were written.

None may be silently wrong: the bytes a token are what their fields say (worked out from layers,
KV heads and dimensions when the file was made), or one line refuses and names a field.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sim.model.hf_config import model_from_config
from workloads.errors import InputError

UNREAD: dict[str, Any] = json.loads(
    Path(__file__).with_name("unread.json").read_text(encoding="utf-8")
)


def test_there_are_enough() -> None:
    assert len(UNREAD) >= 40


@pytest.mark.parametrize("name", UNREAD)
def test_never_silently_wrong(name: str) -> None:
    case = UNREAD[name]
    if case["token_bytes"] is not None:
        model = model_from_config(case["config"], name, name)
        assert model.kv_bytes_per_token() == case["token_bytes"]
        return
    with pytest.raises(InputError) as caught:
        model_from_config(case["config"], name, name)
    (line,) = str(caught.value).splitlines()
    named = line.removeprefix(f"{name}: ").split(":")
    fields = {word.split("=")[0].split()[0] for word in map(str.strip, named) if word}
    nested = [case["config"]]
    known = {"model_type"}
    while nested:
        one = nested.pop()
        known |= one.keys()
        nested += [value for value in one.values() if isinstance(value, dict)]
    assert fields & known, line
