"""Block size advice: sums checked by counting, and the paper's bound on waste."""

import numpy as np
import pytest

from sim.hardware import find_device
from sim.memory.block_size import advise_block_size, slots_up_to
from sim.memory.ledger import kv_budget
from sim.model.presets import find_model
from workloads.synthetic import generate

LEDGER = kv_budget(find_model("llama-2-7b"), find_device("a100-80gb"))


@pytest.mark.parametrize("block_size", [1, 3, 16])
def test_slots_of_a_growing_request(block_size: int) -> None:
    counted = [-(-length // block_size) * block_size for length in range(1, 41)]
    sums = slots_up_to(np.arange(41), block_size)
    assert sums.tolist() == [0, *np.cumsum(counted).tolist()]


def test_blocks_of_one_waste_nothing_and_of_sixteen_half_a_block() -> None:
    """Prompt 1,000 and output 1,600 walk through whole blocks: 7.5 of 16 slots are empty."""
    advice = advise_block_size(generate(3, 1.0, prompt="1008", output="1600"), LEDGER)
    curve = {row.block_size: row for row in advice.curve}
    assert curve[1].waste == 0
    lengths = np.arange(1008, 1008 + 1600)
    held = -(-lengths // 16) * 16
    assert curve[16].waste == pytest.approx(100 * (held - lengths).sum() / held.sum())
    assert (held - lengths).mean() == 7.5
    # 4 bytes name 16 × 524,288 bytes of KV; 32 B for each of 32 × 32 heads of 16 × 512 B.
    assert curve[16].table == pytest.approx(100 * 4 / (16 * 524_288))
    assert curve[16].lookup == pytest.approx(100 * 32 / (16 * 512))


def test_longer_contexts_ask_for_larger_blocks() -> None:
    short = advise_block_size(generate(9, 1.0, prompt="100", output="100"), LEDGER)
    long = advise_block_size(generate(9, 1.0, prompt="60000", output="100"), LEDGER)
    assert short.recommended == 16
    assert long.recommended > 16
