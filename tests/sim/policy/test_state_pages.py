"""Paging beside states of sequences: vLLM's cut of the pool, worked out, and the laws."""

import pytest

from sim.model.layers import LayerGroup
from sim.model.states import StateGroup, StatePart
from sim.policy import laws
from sim.policy.laws import Contract, pool
from sim.policy.manager import Pool
from sim.policy.registry import parse_policy
from sim.policy.state_pages import StatePages, cut
from sim.sequence import Sequence
from workloads.errors import InputError

ATTENTION = LayerGroup(6, "full", 2, 128, 128)  # 1,024 B a token and layer in 16 bits
STATE = StateGroup(23, "mamba2", (StatePart("state", 1_067_008, 2, 1),))  # 2,134,016 B a layer


def hybrid(
    tokens: int, max_len: int, group: LayerGroup = ATTENTION, states: tuple[StateGroup, ...] = ()
) -> Pool:
    plain = pool(tokens, max_len, (group,))
    return Pool(
        plain.capacity_bytes, plain.token_bytes, max_len, 0, (group,), plain.stored,
        states=states or (STATE,),
    )  # fmt: skip


def test_a_block_of_attention_holds_a_layers_state() -> None:
    """Nemotron 3 Nano: 2,134,016 B of state against 1,024 B a token: 2,084 tokens at least, so
    131 × 16 = 2,096. Pages of 6 layers: 23 layers of states take 4 tables."""
    found = cut(hybrid(1, 1000), 16)
    assert found.block_size == 2096
    assert found.block_bytes == 6 * 2096 * 1024
    assert found.fixed == 4


def test_latent_attention_beside_states_has_blocks_of_128() -> None:
    """Kimi Linear: 2,170,880 B of state, latent vectors of 1,152 B: 1,885 tokens, 15 × 128."""
    latent = LayerGroup(7, "mla", 1, 576, 0, latent_dim=512)
    kda = StateGroup(20, "kda", (StatePart("state", 1_085_440, 2, 1),))
    found = cut(
        Pool(10**9, 0, 100, 0, (latent,), states=(kda,)).storing(pool(1, 1, (latent,)).stored), 16
    )
    assert (found.block_size, found.fixed) == (1920, 3)


def test_many_attention_layers_beside_few_states_are_refused() -> None:
    """vLLM would cut 9 layers of attention into two tables of the 6 layers that have states."""
    many = LayerGroup(9, "full", 2, 128, 128)
    few = StateGroup(6, "mamba2", STATE.parts)
    with pytest.raises(InputError, match="9 full layers beside 6 mamba2 layers"):
        cut(hybrid(1, 1000, many, (few,)), 16)
    eight = LayerGroup(8, "full", 2, 128, 128)  # less than 1.5 times as many: one table, padded
    assert cut(hybrid(1, 1000, eight, (few,)), 16).block_bytes == 8 * 2096 * 1024


def test_an_encoders_keys_take_pages_and_grow_none() -> None:
    """Whisper: 1,500 tokens beside a decoder of equal layers are 94 blocks of 16."""
    decoder = LayerGroup(32, "full", 20, 64, 64)
    cross = StateGroup(32, "cross", (StatePart("keys and values", 1500 * 2 * 20 * 64, 2, 20),))
    found = cut(hybrid(1, 448, decoder, (cross,)), 16)
    assert (found.block_size, found.fixed) == (16, 94)


def test_a_model_without_attention_has_a_block_a_sequence() -> None:
    manager = StatePages(Pool(10 * 23 * 2_134_016 + 5, 0, 50_000, states=(STATE,)), 16, 0.0)
    assert (manager.blocks, manager.longest()) == (10, 10 * 50_001)
    for index in range(10):
        seq = Sequence(index, 0, 40_000, 2)
        assert manager.can_admit(seq)
        manager.admit(seq)
        manager.extend(seq, 40_000)
    assert not manager.can_admit(Sequence(10, 0, 1, 1))
    assert manager.memory().live == 10 * 23 * 2_134_016


@pytest.mark.parametrize(
    "spec",
    ["preallocation", "paging+prefix", "virtual", "growing", "paging+sliding_window:window=8"],
)
def test_what_has_no_room_for_states_says_so(spec: str) -> None:
    with pytest.raises(InputError, match="keeps a state of each sequence"):
        parse_policy(spec).manager(hybrid(10_000, 100))


SMALL = (StateGroup(5, "mamba", (StatePart("state", 300, 2, 1),)),)


class BesideStates(Contract):
    """All laws, over a pool of a model with states."""

    spec = parse_policy("paging:block_size=4")
    tokens = (160, 400)


def test_laws_beside_states(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_states(tokens: int, max_len: int, groups: tuple[LayerGroup, ...]) -> Pool:
        return hybrid(tokens, max_len, groups[0], SMALL)

    monkeypatch.setattr(laws, "pool", with_states)
    laws.check(BesideStates, 2000)
