"""What `kvtwin size` and `kvtwin list` print: integers, and numbers that agree with each other."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sim.commands.size import list_gpus, list_models
from sim.commands.size import size as command
from sim.commands.size_text import size_text
from sim.model.presets import find_model
from sim.run.options import EngineOptions
from tests.command import kvtwin
from workloads.errors import InputError

Capture = pytest.CaptureFixture[str]
GPU = "a100-40gb"


def size(**given: Any) -> None:
    """The command, with options of engines as the command line gives them: flat."""
    own = {field.name for field in fields(EngineOptions)} & set(given)
    options = EngineOptions(**{name: given.pop(name) for name in own})
    command(options=options, **given)


def sized(capsys: Capture, **options: Any) -> Any:
    size(**{"model": "llama-13b", "gpu": GPU, "context": (8192,), **options}, json_output=True)
    return json.loads(capsys.readouterr().out, parse_constant=pytest.fail)


def test_json_agrees_with_itself(capsys: Capture) -> None:
    for options in ({}, {"tp": 4}, {"kv_cache_dtype": "int8"}, {"kv_cache_memory": "5GB"}):
        found = sized(capsys, policy=("paging:block_size=32", "preallocation"), **options)
        sizes = [line["bytes"] for line in found["ledger"]]
        assert all(type(size_bytes) is int for size_bytes in sizes)
        assert sum(sizes) == found["device_bytes"]
        assert found["ledger"][-1]["bytes"] == found["kv_cache_bytes"]
        paged = found["policies"][0]
        assert paged["cache_tokens"] == paged["blocks"] * 32
        assert paged["blocks"] == found["kv_cache_bytes"] // (32 * found["token_bytes"])
        assert found["token_bytes_formula"].endswith(f"= {found['token_bytes']:,} B per token")


def test_a_policy_that_cannot_hold_a_request_is_named_beside_the_others(capsys: Capture) -> None:
    found = sized(capsys, kv_cache_memory="5GB", policy=("preallocation", "paging"))
    assert [sizing["policy"] for sizing in found["policies"]] == ["paging"]
    assert "one buffer of 8192 tokens takes 6710886400 bytes" in found["refused"]["preallocation"]
    with pytest.raises(InputError, match="one buffer of 8192 tokens"):
        sized(capsys, kv_cache_memory="5GB", policy=("preallocation",))
    with pytest.raises(InputError, match="no policy 'pging'; did you mean 'paging'"):
        sized(capsys, policy=("paging", "pging"))
    with pytest.raises(InputError, match="--context 9000: expected 1 to"):
        sized(capsys, context=(9000,), max_model_len=8192, policy=("paging", "preallocation"))


def test_the_documents_question(capsys: Capture) -> None:
    """LLaMA-13B with 14 GB for KV: two conversations of 8,192 tokens at 6,710,886,400 B."""
    size(model="llama-13b", gpu=GPU, context=(8192,), kv_cache_memory="14GB")
    out = capsys.readouterr().out
    assert "2 × 40 layers × 40 heads × 128 × 2 B = 819,200 B per token" in out
    assert "14,000,000,000 B   13.04 GiB" in out
    assert "requests of 8,192 tokens: 2 fit, holding 12.50 GiB (16,384 slots)" in out
    assert "note: llama-2-13b was made for 4,096 positions, not 8,192" in out


def test_reserved_and_used_slots(capsys: Capture) -> None:
    size(
        model="llama-13b",
        gpu=GPU,
        context=(2000, 8000),
        max_model_len=8192,
        kv_cache_memory="14GB",
        policy=("preallocation",),
    )
    together = capsys.readouterr().out.split("one of each together: ")[1]
    assert together.startswith("holding 12.50 GiB (16,384 slots), 7.63 GiB (10,000 slots)")


@pytest.mark.parametrize("side_bytes", [0, 4])
def test_slots_are_of_tokens_as_the_policy_stores_them(capsys: Capture, side_bytes: int) -> None:
    """LLaMA-13B's token: 2 × 40 layers × 40 heads, each of 128 B in 8 bits and its scale. 27
    requests of 1,000 tokens hold 63 blocks of 16 each, whatever a token takes."""
    token = 2 * 40 * 40 * (128 + side_bytes)
    how = "int8" if side_bytes else "fp8"
    memory = 27 * 63 * 16 * token
    for stored in ({"policy": (f"paging:block_size=16+{how}",)}, {"kv_cache_dtype": how}):
        size(model="llama-13b", gpu=GPU, context=(1000,), kv_cache_memory=memory, **stored)
        out = capsys.readouterr().out
        assert "1,000 tokens: 27 fit" in out
        assert "(27,216 slots)" in out
        assert "(27,000 slots) of it written" in out


def test_capped_windows_are_bounded_as_the_policy_stores_them(capsys: Capture) -> None:
    """Gemma 3 in 8 bits: K and V of 16 heads of 128 B, of 30,000 tokens in 10 full layers and of
    1,024 in 52 with windows. Memory for five such requests."""
    one = 2 * 16 * 128 * (10 * 30_000 + 52 * 1024)
    size(
        model="gemma-3-27b",
        gpu="h100",
        context=(30_000,),
        kv_cache_memory=5 * one,
        policy=("paging:layers=capped+fp8",),
    )
    assert "pages per layer group: at most 5\n" in capsys.readouterr().out


def test_copied_heads_and_windows_are_said(capsys: Capture) -> None:
    size(model="llama-3-8b", gpu="h100", context=(8192,), tp=16)
    assert "262,144 B on all GPUs for a logical 131,072 B" in capsys.readouterr().out
    size(model="gemma-3-27b", gpu="h100", context=(8192,))
    out = capsys.readouterr().out
    assert "with windows capped: 81,920 B per token + 436,207,616 B (0.41 GiB)" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs=0, expected at least 1"),
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens=0, expected at least 1"),
        ({"max_num_batched_tokens": 8}, "max_num_batched_tokens=8 is below max_num_seqs=256"),
        ({"max_model_len": 0}, "max_model_len=0, expected at least 2"),
        ({"context": (-1,)}, "--context -1: expected at least 1 token$"),
        ({"context": ()}, "--context: expected at least one length"),
    ],
)
def test_what_simulate_refuses_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        size(**{"model": "llama-13b", "gpu": GPU, "context": (8192,), **options})


def test_small_parts_are_not_zero(capsys: Capture) -> None:
    size(model="llama-2-13b", gpu=GPU, context=(1000,))
    out = capsys.readouterr().out
    (table,) = [line for line in out.splitlines() if "rotary table" in line]
    assert "1,048,576 B    1.00 MiB" in table
    assert " 0.00 GiB" not in out
    assert "− CUDA context " in out
    assert size_text(0) == "0 B"
    assert size_text(4096) == "4.00 KiB"


@pytest.mark.parametrize(
    ("options", "tokens", "why"),
    [
        ({}, 1000, "the longest --context (simulate takes the model's own 4,096)"),
        ({"max_model_len": 2048}, 2048, "given by --max-model-len"),
    ],
)
def test_the_longest_context_is_said_with_its_reason(
    capsys: Capture, options: dict[str, int], tokens: int, why: str
) -> None:
    found = sized(capsys, context=(500, 1000), policy=("preallocation",), **options)
    assert found["max_model_len"] == found["policies"][0]["max_model_len"] == tokens
    assert why in found["max_model_len_why"]
    size(model="llama-13b", gpu=GPU, context=(500, 1000), **options)
    (line,) = [ln for ln in capsys.readouterr().out.splitlines() if "max-model-len  " in ln]
    assert line.startswith(f"max-model-len  {tokens:,} tokens: {why}")


def test_lists(capsys: Capture) -> None:
    list_models()
    assert any(
        line.startswith("llama-3.1-8b") and "131,072" in line
        for line in capsys.readouterr().out.splitlines()
    )
    list_models(json_output=True)
    models = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert models["deepseek-v3"]["token_bytes"] == 70_272
    list_gpus()
    assert "rtx-4090" in capsys.readouterr().out
    list_gpus(json_output=True)
    gpus = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert gpus["rtx-4090"]["memory_bytes"] == 25_250_627_584


@pytest.mark.parametrize("name", ["nemotron-3-nano-30b-a3b", "deepseek-v3.2", "gpt-oss-20b"])
def test_hybrid_sparse_and_windowed_models_are_simulated(
    name: str, capsys: Capture, tmp_path: Path
) -> None:
    """Under the laws, to the end; the run says what a token and a sequence take."""
    from sim import cli

    tp = 8 if name == "deepseek-v3.2" else 1
    policy = "paging:layers=capped" if name == "gpt-oss-20b" else "paging"
    cli.app(
        ["simulate", "azure-2023-conv", "--model", name, "--gpu", "h200", "--tp", str(tp),
         "--policy", policy, "--first", "20", "--no-report", "-o", str(tmp_path / "out")],
        result_action="return_value",
    )  # fmt: skip
    capsys.readouterr()
    (file,) = tmp_path.rglob("run.json")
    run = json.loads(file.read_text())
    model = find_model(name)
    assert run["pool"]["token_bytes"] == model.kv_bytes_per_token(tp=tp)
    assert run["pool"]["state_bytes"] == model.state_bytes(tp)
    finished = next(metric for metric in run["metrics"] if metric["name"] == "finished")
    assert finished["value"] == 20


def test_a_page_with_the_capacity_curve(capsys: Capture, tmp_path: Path) -> None:
    """Llama-13B in 14 GB: 819,200 B a token, so 14e9 // (16 × 819,200) = 1,068 blocks of 16."""
    page = tmp_path / "page.html"
    options: dict[str, Any] = {"kv_cache_memory": "14GB", "policy": ("paging",), "max_num_seqs": 64}
    found = sized(capsys, context=(2048, 4096), output=page, **options)
    assert found["binds"].startswith("KV memory binds at 4,096 tokens: 4 requests of the 64")
    bought = {row["change"]: row["requests"] for row in found["would_buy"]}
    assert bought["--kv-cache-dtype fp8"] == 8  # 2,136 blocks // 256
    assert bought["contexts of 2,048 tokens"] == 8  # 1,068 // 128
    assert bought["2 GPUs instead of 1"] == 8  # each holds half of a token
    text = page.read_text(encoding="utf-8")
    assert "://" not in text.split("<script")[0]  # nothing is fetched
    for cell in ("<td>4</td>", "<td>8</td>", "<td>16</td>"):
        assert cell in text
    chart = text.split('data-chart="capacity">')[1].split("</script>")[0]
    curves = json.loads(chart)["data"]
    assert [one["name"] for one in curves] == ["paging, auto", "paging, fp8"]
    assert curves[0]["x"] == [1024, 2048, 4096]
    assert curves[0]["y"] == [1068 // 64, 1068 // 128, 1068 // 256]


def test_lines_of_the_ledger_can_be_given(capsys: Capture) -> None:
    given = {
        "weight_memory": "20GiB",
        "non_torch_memory": "500MiB",
        "cuda_graph_memory": "1GiB",
        "communication_memory": "24MiB",
        "activation_reserve": "2GiB",
    }
    found = sized(capsys, **given)
    ledger = {line["name"]: line["bytes"] for line in found["ledger"]}
    assert ledger["weights"] == 20 * 2**30
    assert ledger["CUDA context"] == 500 * 2**20
    assert ledger["CUDA graphs"] == 2**30
    assert ledger["communication"] == 24 * 2**20
    assert sum(ledger.values()) == found["device_bytes"]


def test_a_rank_of_several_holds_its_share_of_the_experts(capsys: Capture, tmp_path: Path) -> None:
    """As a run of so many ranks has it, by its own folder: half of the weights of 128 experts."""
    ranks = ["--model", "qwen3-30b-a3b", "--gpu", "h100", "--data-parallel", "2"]
    words = ["azure-2023-conv", "--first", "1", *ranks, "-o", "out", "--no-report"]
    assert kvtwin("simulate", *words, cwd=tmp_path).returncode == 0
    run = json.loads(next(tmp_path.glob("out/**/run.json")).read_text())
    given = {"model": "qwen3-30b-a3b", "gpu": "h100"}
    found, alone = sized(capsys, **given, data_parallel=2), sized(capsys, **given)
    weights, whole = (
        next(line["bytes"] for line in one["ledger"] if line["name"] == "weights")
        for one in (found, alone)
    )
    # 48 layers of 128 experts of three matrices of 2,048 x 768 in 16 bits, half of them elsewhere
    assert whole - weights == 48 * 64 * 3 * 2048 * 768 * 2
    assert [line["bytes"] for line in run["ledger"]][:-1] == [
        line["bytes"] for line in found["ledger"]
    ][:-1]
    assert "GPUs" not in "".join(one["change"] for one in found["would_buy"])
    with pytest.raises(InputError, match="expected a number that divides"):
        sized(capsys, **given, data_parallel=3)
    page = tmp_path / "page.html"
    size(**given, context=(8192,), data_parallel=2, output=page)
    title = "<title>qwen3-30b-a3b on h100, each of 2 data-parallel ranks</title>"
    assert title in page.read_text(encoding="utf-8").lower()


def test_what_binds_names_its_policy_beside_others(capsys: Capture, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    given = {"model": "llama-13b", "gpu": GPU, "context": (2000,), "output": page}
    for policies, said in (
        (("paging",), "\nKV memory binds at"),
        (("preallocation", "paging"), "\npreallocation: KV memory binds at"),
    ):
        size(**given, policy=policies)
        assert said in capsys.readouterr().out
        named = '<p class="for">preallocation</p>' in page.read_text(encoding="utf-8")
        assert named == (len(policies) > 1)
    assert sized(capsys, policy=("preallocation", "paging"))["binds_policy"] == "preallocation"


def test_vllms_own_cut_of_windowed_layers(capsys: Capture) -> None:
    """gpt-oss-20b at 131,072 tokens, 2,048 a step: 8,192 blocks of full layers and
    ⌈(127 + 2,048) / 16⌉ + 1 = 137 of windowed ones."""
    found = sized(capsys, model="gpt-oss-20b", gpu="h100", context=(131_072,))
    cut = found["vllm_0.32"]
    assert cut["block_bytes"] == 12 * 16 * 2 * 8 * 64 * 2
    assert cut["blocks"] == found["kv_cache_bytes"] // cut["block_bytes"]
    assert cut["concurrency"] == cut["blocks"] / (8192 + 137)


def test_a_model_without_attention(capsys: Capture) -> None:
    """Mamba 2 2.7B: 64 layers of 3 × 5,376 + 5,120 × 128 elements of 2 B, whatever the length."""
    model = str(Path(__file__).parents[1] / "sim/model/configs/mamba2-2.7b.json")
    state = 64 * (3 * 5376 + 5120 * 128) * 2
    found = sized(capsys, model=model, context=(512, 4096), policy=("paging", "preallocation"))
    assert (found["token_bytes"], found["state_bytes"]) == (0, state)
    (paging,) = found["policies"]
    fits = found["kv_cache_bytes"] // state
    assert [fit["fit"] for fit in paging["requests"]] == [fits, fits]
    assert "keeps a state of each sequence" in found["refused"]["preallocation"]
    size(model=model, gpu=GPU, context=(512,))
    assert f"{state:,} B per sequence" in capsys.readouterr().out


def test_states_are_a_line_of_what_is_held(capsys: Capture) -> None:
    """Nemotron 3 Nano: 49,082,368 B of states for each of the requests that fit."""
    found = sized(capsys, model="nemotron-3-nano-30b-a3b", gpu="h200", context=(1000,))
    (fit,) = found["policies"][0]["requests"]
    assert fit["kv_cache"]["states of sequences"] == fit["fit"] * 49_082_368
    assert fit["kv_cache"]["payload"] == fit["fit"] * 1000 * 6144
    assert sum(fit["kv_cache"].values()) == found["kv_cache_bytes"]
    assert found["vllm_0.32"]["groups"] == 1 + 4  # attention's table, and 23 layers in sixes


def test_windows_are_counted_as_the_engine_simulates_them(capsys: Capture) -> None:
    """Gemma 3 27B in 20 GiB: 16,384 blocks of 10 layers. A request of 32,768 tokens has 2,048 for
    its full layers and 65 for each of six groups with windows of 1,024: 2,438, so 6 fit."""
    given: dict[str, Any] = {
        "model": "gemma-3-27b",
        "gpu": "h100",
        "context": (32_768,),
        "kv_cache_memory": "20GiB",
        "engine": "vllm-0.32",
    }
    found = sized(capsys, **given)
    assert found["policies"][0]["policy"] == "paging:block_size=16,layers=capped"
    assert found["policies"][0]["requests"][0]["fit"] == 16_384 // (2048 + 6 * 65)
    assert "6 requests of the" in found["binds"]
    older = sized(capsys, **{**given, "engine": "vllm-0.19"})
    assert older["policies"][0]["policy"] == "paging:block_size=16"
    assert older["vllm_0.32"] is None


def test_what_states_leave_no_room_for_is_not_promised(capsys: Capture) -> None:
    found = sized(capsys, model="nemotron-3-nano-30b-a3b", gpu="h200", context=(1000,))
    assert found["policies"][0]["concurrency_at_max_model_len"] is None


def test_a_window_in_every_layer_is_a_plateau(tmp_path: Path, capsys: Capture) -> None:
    """Llama's shape with windows of 64 in all layers: 64 × 16 KiB, and no byte a token more."""
    config = {
        "model_type": "mistral",
        "hidden_size": 1024,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "intermediate_size": 2816,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "sliding_window": 64,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    page = tmp_path / "page.html"
    given: dict[str, Any] = {"model": str(tmp_path), "gpu": GPU, "kv_cache_memory": "2GiB"}
    size(**given, context=(512,), engine="vllm-0.32", output=page)
    said = page.read_text()
    assert "keeps at most 1,048,576 B of windows" in said  # 64 × 2 × 8 layers × 8 heads × 64 × 2 B
    assert "0 B a token" not in said.split("<main>")[0]
    assert "tokens in flight for every request" in capsys.readouterr().out
