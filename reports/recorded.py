"""What a measured run's record holds: a count that was never taken is unknown, not zero."""

from collections.abc import Iterable, Mapping
from typing import Any

FROM_STEPS = (
    "busy_share",
    "steps",
    "prefill_tokens",
    "decode_tokens",
    "num_preemptions",
    "preempted_requests",
    "recomputed_tokens",
    "swapped_bytes",
    "running_peak",
    "waiting_peak",
    "prefix_hit_tokens",
    "kv_cached_mean_bytes",
    "kv_live_share_mean",
    "kv_reserved_share_mean",
    "kv_internal_share_mean",
    "kv_external_share_mean",
    "kv_metadata_share_mean",
    "kv_live_of_used_mean",
    "kv_used_peak_bytes",
)
"""Metrics that need the engine's steps or its parts of memory."""

FROM_MEMORY = ("kv_free_share_mean", "kv_cache_usage_perc")
FROM_SAMPLES = ("running_mean", "waiting_mean")


def unrecorded(steps: int, timeline: Mapping[str, Any], counted: Iterable[str] = ()) -> set[str]:
    """Metrics that a record of `steps` rows and these samples can't tell; `counted`: those that
    the engine counted itself."""
    unknown: set[str] = set()
    if not steps:
        unknown |= {*FROM_STEPS}
    if not timeline["live_bytes"].any():
        unknown |= {*FROM_MEMORY}
    if not timeline["running"].any():
        unknown |= {*FROM_SAMPLES}
    return unknown - {*counted}
