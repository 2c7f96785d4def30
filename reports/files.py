"""What run folders and their neighbours are called, and the uses of memory that they tell apart."""

SCHEMA_VERSION = 1
"""Of run.json."""

REPORT = "report.html"

VALIDATION = "validation.json"
"""Beside run folders: predicted and measured numbers, judged."""

PLANS = "-plans.jsonl"
"""Beside them, behind a folder's name: the plans that were replayed."""

TIMES = "-times.csv"
"""And what the steps of the last replay took."""

MEMORY = ("live", "reserved", "internal", "external", "metadata", "free")
"""Uses of a pool's bytes, in the order of `sim.policy.manager.Memory`; they sum to it."""
