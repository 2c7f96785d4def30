"""Engine presets by name, with parameters changed by name."""

import pytest

from sim.run.engine_presets import ENGINES, SOURCES, find_engine, parameters
from workloads.errors import InputError


def test_every_parameter_has_a_source() -> None:
    for engine in ENGINES.values():
        assert set(parameters(engine)) == set(SOURCES)


def test_parameters_change_by_name() -> None:
    changed = find_engine("vllm-0.19:async_scheduling=false,kernel_overlap_s=3e-5,null_blocks=2")
    assert not changed.rules.async_scheduling
    assert changed.kernels.kernel_overlap_s == 3e-5
    assert changed.null_blocks == 2
    assert changed.prefix_caching  # as in the preset
    assert changed.name == "vllm-0.19:async_scheduling=false,kernel_overlap_s=3e-5,null_blocks=2"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("vllm-0.18", "did you mean 'vllm-0.19'"),
        ("vllm-0.19:async=true", "no parameter 'async'; did you mean"),
        ("vllm-0.19:async_scheduling=yes", "expected true or false"),
        ("vllm-0.19:padded_to=-1", "at least 0"),
        ("vllm-0.19:host_overhead_s=slow", "expected a number"),
    ],
)
def test_what_is_not_known_is_one_line(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_engine(spec)
