"""Models whose layers differ in what they keep: executed in the model's order, each in its window.

`layers=unified` and `layers=capped` against attention written out plainly, on the same plans, over
memory that begins as NaN; and the bytes that requests own against the manager's after every step.
"""

from dataclasses import replace

import numpy as np
import pytest

from executor.attention.plain import NO_WINDOW, PlainAttention
from executor.cache.choice import table_for
from executor.device.assemble import Executor, host_device, random_llama
from executor.device.llama import layer_groups
from executor.device.machine import open_machine
from executor.driver import free_run, lockstep
from executor.plan_log import Logged, expand, logged, single
from executor.validation.calibrate import Calibration, decode_work
from sim.cost.roofline import Roofline
from sim.engine.limits import Pressure
from sim.engine.loop import serve
from sim.engine.record import Recorder
from sim.engine.scheduler import Scheduler
from sim.model.geometry import Model
from sim.model.hf_config import model_from_config
from sim.run.driver import run_simulated
from sim.run.simulation import Setup, prepare
from tests.executor.beside import Beside, run_beside
from tests.executor.brief import brief_measuring
from tests.executor.test_null_device import FollowedDevice
from workloads.schema import Provenance, Trace

WINDOW = 21
LAYERS = ("sliding", "full", "sliding", "full", "sliding")


def model(layers: tuple[str, ...] = LAYERS, window: int = WINDOW) -> Model:
    config = {
        "model_type": "llama",
        "hidden_size": 32,
        "num_hidden_layers": len(layers),
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "vocab_size": 101,
        "max_position_embeddings": 128,
        "dtype": "float32",
        "sliding_window": window,
        "layer_types": [f"{kind}_attention" for kind in layers],
    }
    return model_from_config(config, "windows", "test")


MODEL = model()
TOKEN = 2 * 2 * 8 * 4 * len(LAYERS)  # bytes: K and V, 2 heads of 8 in 32 bits, in each layer
TRACE = Trace(
    "made up",
    np.arange(6) * 2e-3,
    np.array([37, 5, 61, 16, 23, 48]),
    np.array([20, 33, 9, 40, 1, 15]),
    Provenance("test", 0),
)


def setup(
    policy: str, memory: int = 2**21, batching: str = "continuous", given: Model = MODEL
) -> Setup:
    return prepare(
        TRACE,
        model=given,
        gpu=host_device(open_machine("cpu")),
        policy=policy,
        max_num_seqs=4,
        max_num_batched_tokens=32,
        kv_cache_memory=memory,
        batching=batching,
    )


def test_layers_are_in_the_models_order() -> None:
    windows = [group.window for group in layer_groups(MODEL)]
    assert windows == [WINDOW if kind == "sliding" else None for kind in LAYERS]


def beside(given: Setup) -> Beside:
    windows = [group.window or NO_WINDOW for group in layer_groups(given.model)]
    return run_beside(given, PlainAttention(windows=windows))


POLICIES = (
    "paging:block_size=8,layers=unified",
    "paging:block_size=8,layers=capped",
    "paging:block_size=1,layers=capped",
    "paging:block_size=16,layers=capped",
)


@pytest.mark.parametrize("batching", ["continuous", "static"])
@pytest.mark.parametrize("policy", POLICIES)
def test_each_layer_sees_its_window(policy: str, batching: str) -> None:
    assert beside(setup(policy, batching=batching)).worst <= 1e-4


@pytest.mark.parametrize(
    ("policy", "tokens"),
    [("paging:block_size=8,layers=unified", 112), ("paging:block_size=8,layers=capped", 90)],
)
def test_under_pressure(policy: str, tokens: int) -> None:
    found = beside(setup(policy, tokens * TOKEN))
    assert found.preempted > 0
    assert found.worst <= 1e-4


@pytest.mark.parametrize(
    ("policy", "tokens"),
    [("paging:block_size=8,layers=unified", 112), ("paging:block_size=8,layers=capped", 90)],
)
def test_swapped(policy: str, tokens: int) -> None:
    """Of windowed layers, only what is in their windows goes to the host and back."""
    given = setup(policy, tokens * TOKEN)
    limits = replace(given.limits, pressure=Pressure("swap", 1 << 30))
    found = beside(replace(given, limits=limits))
    assert found.swapped > 0
    assert found.worst <= 1e-4


@pytest.mark.parametrize("storage", ["int8", "int8:scale=fp16"])
def test_quantised(storage: str) -> None:
    assert beside(setup(f"paging:block_size=8,layers=capped+{storage}")).worst <= 0.2


def test_every_layer_windowed() -> None:
    given = model(("sliding",) * 3, 12)
    assert beside(setup("paging:block_size=4,layers=capped", given=given)).worst <= 1e-4


def test_capped_holds_less() -> None:
    """By hand, blocks of 8 and a window of 21, a context of 100: a full layer has 13 blocks, a
    windowed one those of positions 79 to 99, which are 4 blocks (9 to 12)."""
    given = setup("paging:block_size=8,layers=capped")
    table = table_for(given.policy.manager(given.pool), given.policy).synthetic()
    table.follow(decode_work(1, 100))
    kept = [int((view.table.owned[0] >= 0).sum()) for view in table.views]
    # Two full layers, three windowed ones: tables of two layers each, the last one half empty.
    assert kept == [13, 4, 4]
    assert table.held_bytes(0) == (13 + 2 * 4) * 8 * 2 * (TOKEN // 5)
    assert table.read_tokens(100, TOKEN) == round((2 * 100 + 3 * 21) / 5)


@pytest.mark.parametrize("batching", ["continuous", "static"])
@pytest.mark.parametrize("policy", POLICIES)
def test_plan_logs_are_equal(policy: str, batching: str) -> None:
    setups = setup(policy, 90 * TOKEN, batching)
    cost = Roofline(setups.model, setups.device)
    log: list[Logged] = []

    def engine() -> tuple[Scheduler, Recorder]:
        manager = setups.policy.manager(setups.pool)
        return Scheduler(manager, setups.limits), Recorder(setups.trace, 1.0)

    scheduler, recorder = engine()
    run_simulated(logged(serve(setups.trace, scheduler, recorder), log), cost)
    steps = list(expand(log))
    scheduler, measured = engine()
    table = table_for(scheduler.manager, setups.policy)
    device = FollowedDevice(cost, table, scheduler.manager)
    own: list[Logged] = []
    free_run(logged(serve(setups.trace, scheduler, measured), own), scheduler, device)
    assert [one._replace(plan=single(one.plan)) for one in own] == steps
    scheduler, again = engine()
    table = table_for(scheduler.manager, setups.policy)
    device = FollowedDevice(cost, table, scheduler.manager)
    lockstep(serve(setups.trace, scheduler, again), scheduler, device, expand(log))
    assert again.log().end_s == measured.log().end_s == recorder.log().end_s


def test_decodes_are_priced_by_what_they_read() -> None:
    """The simulator tells bytes read, so knots of a table are those, not contexts."""
    given, machine = setup("paging:block_size=8,layers=capped"), open_machine("cpu")
    llama = random_llama(MODEL, machine)
    with brief_measuring():
        calibration = Calibration([Executor(given, machine, llama)], machine, llama)
        section = calibration.table([calibration.round()]).sections[0]
    assert section.kept_tokens is None
    longest = round((2 * 128 + 3 * WINDOW) / 5)
    assert section.decode[0].context == (2, longest)
