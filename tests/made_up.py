"""A GPU that does not exist: its kernel times are formulas, so every step's time is arithmetic."""

import csv
import json
from pathlib import Path

import numpy as np

from sim.measured.series import reported_at
from sim.run.simulation import Run

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
TOKENS = (1, 64, 128, 256, 512)
GEMM_US, NORM_US, HEAD_US, SAMPLER_US = 10.0, 1.0, 30.0, 5.0


def gemm_us(tokens: int) -> float:
    return GEMM_US + tokens / 8


def attention_us(chunk: int, earlier: int, decodes: int, context: int) -> float:
    return 2 + chunk * (chunk / 2 + earlier) / 1000 + decodes * context / 500


def write_model(folder: Path, **changes: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "config.json"
    file.write_text(json.dumps({**CONFIG, **changes}))
    return file


def write_profile_folder(
    folder: Path, slower: float = 1.0, mlp: tuple[str, ...] = ("gate_up_proj", "down_proj")
) -> Path:
    tables = folder / "tp1"
    tables.mkdir(parents=True)
    (folder / "meta.yaml").write_text("gpu: Imaginary 1\nvllm_version: 0.19.0\n")
    attention = [
        (c, e, n, k, attention_us(c, e, n, k))
        for c in (0, 16, 64, 256)
        for e in ((0,) if not c else (0, 256, 2048))
        for n in (0, 1, 8, 32)
        for k in ((0,) if not n else (16, 256, 2048))
        if c or n
    ]
    dense = [
        (layer, t, NORM_US if layer == "layernorm" else gemm_us(t))
        for layer in ("qkv_proj", "o_proj", *mlp, "layernorm")
        for t in TOKENS
    ]
    heads = [
        (layer, s, time)
        for layer, time in (("lm_head", HEAD_US), ("sampler", SAMPLER_US))
        for s in (1, 64)
    ]
    for name, header, rows in (
        (
            "attention",
            ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode", "time_us"),
            attention,
        ),
        ("dense", ("layer", "tokens", "time_us"), dense),
        ("per_sequence", ("layer", "sequences", "time_us"), heads),
    ):
        with (tables / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerow(header)
            csv.writer(file).writerows([(*row[:-1], slower * row[-1]) for row in rows])
    return folder


def write_as_measured(run: Run, folder: Path, meta: dict[str, object]) -> Path:
    """The simulated run in the files that a benchmark of a real engine leaves."""
    folder.mkdir()
    requests = run.log.requests
    clock = 1000.0
    with (folder / "requests.jsonl").open("w") as file:
        for i, arrival in enumerate(requests["arrival_s"].tolist()):
            row = {
                "request_id": f"r{i}",
                "input_toks": int(requests["prompt_tokens"][i]),
                "output_toks": int(requests["output_tokens"][i]),
                "arrival_time": 1.7e9 + arrival,
                "queued_ts": clock + arrival,
                "scheduled_ts": clock + arrival,
                "first_token_ts": clock + float(requests["first_token_s"][i]),
                "last_token_ts": clock + float(requests["finish_s"][i]),
            }
            file.write(json.dumps(row) + "\n")
    capacity = run.setup.pool.capacity_bytes
    line = reported_at(run.log, np.arange(1.0, int(run.log.end_s)), capacity)
    used = 100 * (1 - line["free_bytes"] / capacity)
    with (folder / "timeseries.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["t", "running", "waiting", "kv_cache_pct"])
        columns = [line[name].tolist() for name in ("time_s", "running", "waiting")]
        out.writerows(zip(*columns, used.tolist(), strict=True))
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder
