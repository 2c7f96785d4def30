"""Sparse latent attention: memory of all tokens, reads of the chosen ones, and the laws."""

from pathlib import Path

from sim.hardware import find_device
from sim.memory.ledger import kv_budget
from sim.model.hf_config import read_config
from sim.model.layers import LayerGroup
from sim.policy.laws import check_policy
from sim.policy.registry import parse_policy
from sim.sequence import Sequence

CONFIGS = Path(__file__).parents[1] / "model/configs"
SPARSE = (
    LayerGroup(2, "sparse_mla", 1, 40, 0, latent_dim=32, selects=6),
    LayerGroup(2, "indexer", 1, 16, 0, own_bytes=20, own_side=4),
)


def test_laws() -> None:
    check_policy("paging:block_size=4", 1000, (SPARSE,))


def test_a_step_reads_every_key_and_2048_latent_vectors() -> None:
    """DeepSeek-V3.2 in 8 bits: 61 × 656 B of the chosen tokens, 61 × 132 B of all."""
    model = read_config(CONFIGS / "deepseek-v3.2.json")
    device = find_device("custom:memory=2TB", memory_alone=True)
    pool = kv_budget(model, device, kv_dtype="fp8").pool()
    manager = parse_policy("paging").manager(pool)
    for index, tokens in enumerate((1000, 50_000)):
        seq = Sequence(index, 0, tokens, 10)
        manager.admit(seq)
        manager.extend(seq, tokens)
        manager.join(seq)
    memory = manager.memory()
    assert memory.live + memory.metadata == 51_000 * 61 * (656 + 132)
    first = (1000 + 2048) * 61 * 656 + 51_000 * 61 * 132
    assert manager.reads() == (first, 61 * 656 + 2 * 61 * 132)
