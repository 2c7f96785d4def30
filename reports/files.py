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

LAYOUT = "layout"
"""In a run folder, where memory has addresses: LAYOUT.parquet, how much of each stretch of them is
held at each sample of the timeline."""

STRETCHES = 64
"""Equal parts of the addresses that LAYOUT tells of."""

MEMORY = ("live", "reserved", "internal", "external", "metadata", "free")
"""Uses of a pool's bytes, in the order of `sim.policy.manager.Memory`; they sum to it."""
