"""Outputs of whole steps agree between layouts, and with attention written out plainly."""

import time

import pytest
import torch

from executor.attention.plain import PlainAttention
from executor.attention.torch_path import TorchAttention
from executor.cache.contiguous import Contiguous
from executor.cache.paged import Paged
from executor.cache.ring import Ring
from executor.cache.table import Table
from executor.cache.tensors import DTYPES, CacheTensors
from executor.device.llama import Llama, random_weights
from executor.device.text import Text
from executor.device.torch_device import TorchDevice
from executor.work import Decode, Work
from sim.model.geometry import Model
from sim.model.hf_config import model_from_config
from sim.model.kv_formats import kv_format
from sim.plan import Chunk
from workloads.errors import InputError

CPU = torch.device("cpu")
LENGTHS = {0: 21, 1: 5, 2: 16}  # prompts; all decode six tokens


def geometry(**changes: object) -> Model:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 12,
        "intermediate_size": 96,
        "vocab_size": 101,
        "max_position_embeddings": 64,
        "dtype": "float32",
    }
    return model_from_config({**config, **changes}, "tiny", "test")


def script() -> list[Work]:
    """Chunked prefill beside decoding: 0 and 1 begin, 2 joins later; 1 leaves and comes again."""
    works = [
        Work((), (Chunk(0, 0, 16, False), Chunk(1, 0, 5, True)), ()),
        Work((), (Chunk(0, 16, 5, True), Chunk(2, 0, 7, False)), (Decode(1, 6),)),
        Work((), (Chunk(2, 7, 9, True),), (Decode(0, 22), Decode(1, 7))),
        Work((), (), (Decode(0, 23), Decode(1, 8), Decode(2, 17))),
        Work((1,), (Chunk(1, 0, 5, True),), (Decode(0, 24), Decode(2, 18))),
    ]
    works += [Work((), (), (Decode(0, 25 + i), Decode(1, 6 + i))) for i in range(3)]
    return works


def outputs(
    model: Model, table: Table, plain: PlainAttention | None = None, kv_dtype: str = "auto"
) -> list[torch.Tensor]:
    """Logits of every step; memory is poisoned first, so that what isn't written shows."""
    token_bytes = model.kv_bytes_per_token(kv_format(model, kv_dtype))
    cache = CacheTensors(table, model, token_bytes, CPU)
    for pool in cache.pools:
        if kv_dtype == "auto":
            pool.k.fill_(float("nan"))
            pool.v.fill_(float("nan"))
    attention = plain or TorchAttention(table, cache.pools, DTYPES[model.dtype_bytes])
    llama = Llama(model, random_weights(model, CPU))
    device = TorchDevice(
        llama, table, attention, Text(model.vocab_size, CPU, 3), time.perf_counter_ns
    )
    return [device.step(work)[0] for work in script()]


def close(a: list[torch.Tensor], b: list[torch.Tensor], tolerance: float = 1e-4) -> bool:
    return all(
        torch.isfinite(x).all() and torch.allclose(x, y, atol=tolerance, rtol=tolerance)
        for x, y in zip(a, b, strict=True)
    )


TABLES = {
    "paged 1": lambda: Paged(96, 1),
    "paged 4": lambda: Paged(24, 4),
    "paged 16": lambda: Paged(8, 16),
    "chunked": lambda: Paged(3, 32),
    "contiguous": lambda: Contiguous(4, 32),
    "ring": lambda: Contiguous(3, 32, Ring(32, 4)),
    "paged ring": lambda: Paged(24, 4, Ring(32, 4)),
}


@pytest.mark.parametrize("heads", [(8, 2, 12), (4, 4, 16), (6, 2, 8), (4, 1, 24)])
def test_layouts_agree_with_plain_attention(heads: tuple[int, int, int]) -> None:
    model = geometry(num_attention_heads=heads[0], num_key_value_heads=heads[1], head_dim=heads[2])
    expected = outputs(model, Contiguous(3, 32), PlainAttention())
    for name, table in TABLES.items():
        assert close(outputs(model, table()), expected), name


@pytest.mark.parametrize(("window", "sinks"), [(6, 0), (6, 2), (1, 0), (12, 4), (20, 1)])
def test_rings_that_wrap(window: int, sinks: int) -> None:
    model = geometry()
    expected = outputs(model, Contiguous(3, 32), PlainAttention(window, sinks))
    ring = Ring(window + sinks, sinks)
    assert close(outputs(model, Contiguous(3, ring.slots, ring)), expected)
    for page in (1, 4, 16):
        pages = 3 * -(-ring.slots // page)
        assert close(outputs(model, Paged(pages, page, ring)), expected), page


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_int8_is_near(table: "type[Table]") -> None:
    pytest.importorskip("triton")
    model = geometry()
    exact = outputs(model, Contiguous(3, 32), PlainAttention())
    for x, y in zip(outputs(model, table(), kv_dtype="int8_fp16"), exact, strict=True):
        assert torch.nn.functional.cosine_similarity(x, y, dim=-1).min() > 0.999


def test_bf16_runs() -> None:
    model = geometry(dtype="bfloat16")
    assert close(outputs(model, Paged(24, 4)), outputs(model, Contiguous(3, 32)), 0.1)


def test_weights_are_those_that_the_simulator_counts() -> None:
    model = geometry()
    weights = random_weights(model, CPU)
    assert sum(w.numel() * w.element_size() for w in weights.values()) == model.weight_bytes()


def test_loader_names_what_is_wrong() -> None:
    model = geometry()
    weights = random_weights(model, CPU)
    tied = {name: w for name, w in weights.items() if name != "lm_head.weight"}
    assert Llama(model, tied).lm_head is Llama(model, tied).embedding
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(InputError, match=r"layers\.1\.mlp\.up_proj\.weight: missing"):
        Llama(model, weights)
