"""What `kvtwin size --json` prints: integer bytes and tokens."""

from sim.commands.size_text import as_stored, position_note
from sim.memory.bounds import CapacityBounds
from sim.memory.ledger import Ledger
from sim.memory.sizing import Sizing, explain, window_capped_requests


def sizing_json(
    ledger: Ledger, sizings: list[Sizing], refusals: dict[str, str]
) -> dict[str, object]:
    """What `size --json` prints."""
    model, kv, tp = ledger.model, ledger.kv, ledger.tp
    return {
        "model": model.name,
        "gpu": ledger.device.name,
        "tp": tp,
        "kv_cache_dtype": kv.name,
        "ledger": [
            {"name": line.name, "bytes": line.size_bytes, "why": line.why} for line in ledger.lines
        ],
        "device_bytes": ledger.device.memory_bytes,
        "kv_cache_bytes": ledger.kv_bytes,
        "token_bytes": ledger.token_bytes,
        "token_bytes_formula": model.formula(kv, tp),
        "token_bytes_all_gpus": ledger.token_bytes * tp,
        "token_bytes_logical": model.kv_bytes_per_token(kv),
        "state_bytes": model.state_bytes(tp),
        "window_capped": {
            "bytes_per_token": model.kv_growth_bytes(kv, tp),
            "bytes_per_sequence": model.kv_window_bytes(kv, tp),
        },
        "policies": [
            {
                "policy": sizing.policy,
                "max_model_len": sizing.max_model_len,
                "blocks": sizing.blocks,
                "block_bytes": sizing.block_bytes,
                "block_table_bytes": sizing.table_bytes,
                "cache_tokens": sizing.cache_tokens,
                "host_blocks": sizing.host_blocks,
                "concurrency_at_max_model_len": None if model.states else sizing.concurrency,
                "longest_tokens": sizing.longest_tokens,
                "requests": [
                    {
                        "context_tokens": fit.context_tokens,
                        "fit": fit.requests,
                        "held_bytes": fit.held_bytes,
                        "live_bytes": fit.live_bytes,
                        "kv_cache": dict(explain(model, fit)),
                        "fit_if_windows_capped": window_capped_requests(
                            as_stored(ledger, sizing), fit.context_tokens
                        ),
                    }
                    for fit in sizing.fits
                ],
                "together": sizing.together
                and {
                    "requests": sizing.together.requests,
                    "held_bytes": sizing.together.held_bytes,
                    "live_bytes": sizing.together.live_bytes,
                },
            }
            for sizing in sizings
        ],
        "refused": refusals,
        "notes": [*model.notes, *filter(None, [position_note(ledger, sizings)])],
    }


def bounds_json(bounds: CapacityBounds) -> dict[str, object]:
    """Bounds of bytes and of requests at once."""
    low, high = bounds.kv_bytes
    return {
        "level": bounds.level,
        "kv_cache_bytes": {"low": low, "high": high},
        "requests": [
            {"policy": policy, "context_tokens": tokens, "low": least, "high": most}
            for (policy, tokens), (least, most) in bounds.requests.items()
        ],
    }
