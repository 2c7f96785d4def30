"""A run of vLLM's own server under vLLM's own benchmark, as a user records one.

    python -m benchmarks.live.server [-o FOLDER]

FOLDER gets what `kvtwin compare-run` reads: bench.json of `vllm bench serve`, the server's log, the
ids of the prompts' blocks, and steps.json, timed by the wall clock before and after.
"""

import argparse
import json
import os
import shutil
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import DEVNULL, Popen, run
from time import monotonic, sleep

from benchmarks.live.load import BLOCK, LOADS, VOCABULARY, Load, hash_ids
from benchmarks.live.pairs import HERE, LIMITS, MODEL, PYTHON, Live, step_times, this_cpu

PORT = 8123
CALIBRATE_S = 20.0
ENVIRONMENT = {
    **os.environ,
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
}


def server_command(model: Path, blocks: int) -> list[str]:
    """What a user would type, with the model's weights at random."""
    given = {name: value for name, value in LIMITS.items() if name != "enable_prefix_caching"}
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    return [
        "serve", str(model), "--load-format=dummy", "--enforce-eager", f"--port={PORT}",
        f"--num-gpu-blocks-override={blocks}", "--enable-prefix-caching",
        "--served-model-name=llama-103m", *flags,
    ]  # fmt: skip


def bench_command(model: Path, dataset: Path, load: Load) -> list[str]:
    """The client: prompts of a file in their order, Poisson arrivals."""
    return [
        "bench", "serve", "--backend=openai", f"--base-url=http://127.0.0.1:{PORT}",
        "--model=llama-103m", f"--tokenizer={model}", "--dataset-name=custom",
        f"--dataset-path={dataset}", "--custom-output-len=-1", "--skip-chat-template",
        "--disable-shuffle", f"--num-prompts={load.requests}", "--ignore-eos", "--temperature=0",
        f"--request-rate={load.request_rate}", "--seed=0", "--save-result", "--save-detailed",
        "--result-dir=.", "--result-filename=bench.json", "--disable-tqdm",
    ]  # fmt: skip


def wait_for_server(process: Popen[bytes], seconds: float = 300) -> None:
    """Until it answers. Raises RuntimeError where it ends or takes too long."""
    end = monotonic() + seconds
    while monotonic() < end:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=5)
        except (urllib.error.URLError, OSError):
            if process.poll() is not None:
                break
            sleep(1)
        else:
            return
    raise RuntimeError("the server doesn't answer; see server.log")


def main() -> None:
    """Calibrate, serve, calibrate again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", type=Path, default=Path("out/live-server"))
    folder = parser.parse_args().o
    shutil.rmtree(folder, ignore_errors=True)
    load = LOADS[0]
    rows = load.rows()
    live = Live(folder, "wall")
    before = live.ask(pause_s=CALIBRATE_S)
    model, prompts = Path("model"), Path("prompts.jsonl")
    run(
        [PYTHON, HERE / "tokenizer.py", folder / model, str(VOCABULARY)], check=True, stdout=DEVNULL
    )
    texts = [
        {"prompt": " ".join(map(str, row["tokens"])), "output_tokens": row["output"]}
        for row in rows
    ]
    (folder / prompts).write_text(
        "".join(json.dumps(text) + "\n" for text in texts), encoding="utf-8"
    )
    vllm = (PYTHON, HERE / "vllm_cli.py")
    serve, bench = server_command(model, load.blocks), bench_command(model, prompts, load)
    with (folder / "server.log").open("wb") as log:
        server = Popen([*vllm, *serve], cwd=folder, env=ENVIRONMENT, stdout=log, stderr=log)
        try:
            wait_for_server(server)
            run([*vllm, *bench], cwd=folder, env=ENVIRONMENT, check=True)
        finally:
            server.terminate()
            server.wait(timeout=60)
    after = live.ask(pause_s=CALIBRATE_S)
    pairs = zip(before["points"], after["points"], strict=True)
    both = {
        "vllm": live.version,
        "points": [[*one[:3], one[3] + two[3]] for one, two in pairs],
    }
    (folder / "steps.json").write_text(
        step_times(both, "wall time").model_dump_json(indent=1) + "\n"
    )
    shutil.copy(MODEL, folder / "config.json")
    lines = [json.dumps({"hash_ids": ids}) + "\n" for ids in hash_ids(rows)]
    (folder / "hash_ids.jsonl").write_text("".join(lines), encoding="utf-8")
    meta = {
        "schema_version": 1,
        "model": "llama-103m, random weights",
        "vllm_version": live.version,
        "engine_kwargs": {**LIMITS, "async_scheduling": False, "enforce_eager": True},
        "kv_cache": {"num_gpu_blocks": load.blocks, "block_size": BLOCK},
        "hardware": {"device_name": this_cpu("wall time").name},
        "clock": "wall time, at the client",
        "machine_load": os.getloadavg()[0],
        "commands": [" ".join(["vllm", *command]) for command in (serve, bench)],
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
