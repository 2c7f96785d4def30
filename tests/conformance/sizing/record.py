"""Records how vLLM itself cuts a KV cache: blocks, groups, pages, tokens and concurrency.

Runs in an environment with vLLM's CPU build, needs no weights and no accelerator: the model is
built without memory for its tensors, and vLLM's own functions say what its layers keep.

    python tests/conformance/sizing/record.py tests/sim/model/configs OUT.json [NAME ...]

Names say which configurations to record again; without any, all are.
"""

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_LOGGING_LEVEL="ERROR")
os.environ.update(VLLM_CPU_KVCACHE_SPACE="", OMP_NUM_THREADS="1")

POOL_BYTES = 24 * 2**30
LONGEST = 16_384
BATCHED_TOKENS = 2048
BLOCK_SIZE = 32  # the smallest that vLLM's attention on CPUs takes
TEXT = {
    # the text part of wrappers, whose towers keep nothing
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma4_text": "Gemma4ForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "ministral3": "MistralForCausalLM",
    "qwen3_5_text": "Qwen3_5ForCausalLM",
}
FP8 = ("gemma-3-27b", "gpt-oss-20b", "mistral-7b-v0.1", "qwen3-8b")
"""Configurations recorded with a KV cache of 8 bits too."""
OTHER_TYPE = {"kimi_k2": "deepseek_v3", "ministral3": "mistral"}  # the same fields, known to vLLM


def text_alone(content: dict[str, Any]) -> dict[str, Any]:
    """The configuration of the text model alone, its weights in 16 bits: neither changes KV."""
    if "text_config" in content:
        text = content["text_config"]
        content = {"architectures": [TEXT[text["model_type"]]], **text}
    content.pop("quantization_config", None)
    content["model_type"] = OTHER_TYPE.get(content["model_type"], content["model_type"])
    return content


def allow_sparse() -> None:
    """Let sparse attention be built where no kernel runs it: what it keeps is the same."""
    from vllm.platforms.cpu import CpuPlatform

    chosen = CpuPlatform.get_attn_backend_cls.__func__

    def without_sparse(cls: Any, *given: Any, **named: Any) -> Any:
        if given and "attn_selector_config" not in named:
            named["attn_selector_config"] = given[1]
            given = (given[0], *given[2:])
        named["attn_selector_config"] = named["attn_selector_config"]._replace(use_sparse=False)
        if given:
            named["selected_backend"], given = given[0], given[1:]
        return chosen(cls, *given, **named)

    CpuPlatform.get_attn_backend_cls = classmethod(without_sparse)  # type: ignore[method-assign]


def record(config: Path, **arguments: Any) -> dict[str, Any]:
    """What vLLM makes of a pool of POOL_BYTES for that configuration."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.platforms import current_platform
    from vllm.v1.attention.backends.utils import resolve_kv_cache_layout
    from vllm.v1.core.kv_cache_utils import (
        generate_scheduler_kv_cache_config,
        get_kv_cache_capacity,
        get_kv_cache_configs,
    )
    from vllm.v1.kv_cache_interface import iter_layer_specs
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    content = text_alone(json.loads(config.read_text()))
    named = ("max_target_positions", "max_position_embeddings")
    longest = min([LONGEST, *(content[name] for name in named if name in content)])
    with TemporaryDirectory() as folder:
        Path(folder, "config.json").write_text(json.dumps(content))
        engine = EngineArgs(
            model=folder, load_format="dummy", skip_tokenizer_init=True, max_model_len=longest,
            enforce_eager=True, dtype="bfloat16", max_num_batched_tokens=BATCHED_TOKENS,
            **arguments,
        ).create_engine_config()  # fmt: skip
    with set_current_vllm_config(engine), torch.device("meta"):
        model = initialize_model(engine)
        current_platform.update_block_size_for_backend(engine)
        runner = SimpleNamespace(vllm_config=engine, shared_kv_cache_layers={})
        specs = GPUModelRunner.get_kv_cache_spec(runner)  # type: ignore[arg-type]
    resolve_kv_cache_layout(engine, [["LBNHC"]], list(specs.values()))
    (cut,) = get_kv_cache_configs(engine, [specs], [POOL_BYTES])
    tokens, concurrency = get_kv_cache_capacity(engine, generate_scheduler_kv_cache_config([cut]))
    groups = [
        {
            "kind": type(next(iter(iter_layer_specs(group.kv_cache_spec)))).__name__,
            "layers": len(group.layer_names),
            "block_size": group.kv_cache_spec.block_size,
            "page_bytes": group.kv_cache_spec.page_size_bytes,
        }
        for group in cut.kv_cache_groups
    ]
    batches = engine.max_concurrent_batches
    return {
        "max_model_len": engine.model_config.max_model_len,
        "block_size": engine.cache_config.block_size,
        "layout": engine.cache_config.kv_cache_layout,
        "concurrent_batches": batches,
        "prefix_caching": engine.cache_config.enable_prefix_caching,
        "mamba_cache_mode": engine.cache_config.mamba_cache_mode,
        "blocks": cut.num_blocks,
        "groups": groups,
        "tokens": tokens,
        "concurrency": concurrency,
        "parameters": sum(weight.numel() for weight in model.parameters()),
    }


def main() -> None:
    """Record every configuration of a folder, and say why where vLLM has no answer."""
    import vllm
    from vllm.config import VllmConfig, set_current_vllm_config
    from vllm.distributed import init_distributed_environment, initialize_model_parallel

    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    with set_current_vllm_config(VllmConfig()):
        init_distributed_environment(1, 0, "tcp://127.0.0.1:29511", 0, "gloo")
        initialize_model_parallel()
    allow_sparse()
    kept = json.loads(out.read_text()) if out.is_file() else {}
    found: dict[str, Any] = kept.get("models", {})
    refused: dict[str, str] = kept.get("refused", {})
    halved: dict[str, Any] = kept.get("fp8", {})
    for config in sorted(folder.glob("*.json")):
        if sys.argv[3:] and config.stem not in sys.argv[3:]:
            continue
        found.pop(config.stem, None)
        refused.pop(config.stem, None)
        try:
            found[config.stem] = record(config, block_size=BLOCK_SIZE)
            print(config.stem, json.dumps(found[config.stem]), flush=True)
            if config.stem in FP8:
                halved[config.stem] = record(config, block_size=BLOCK_SIZE, kv_cache_dtype="fp8")
        except Exception as error:  # vLLM raises what it likes
            refused[config.stem] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            print(config.stem, "REFUSED", refused[config.stem], flush=True)
        facts = {
            "vllm": vllm.__version__,
            "pool_bytes": POOL_BYTES,
            "batched_tokens": BATCHED_TOKENS,
            "models": dict(sorted(found.items())),
            "fp8": dict(sorted(halved.items())),
            "refused": dict(sorted(refused.items())),
        }
        out.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
