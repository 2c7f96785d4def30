"""What the names in the engine's and the managers' sources stand for, for `lower`."""

ROLES: dict[str, dict[str, str]] = {
    "loop": {
        "self": "loop",
        "scheduler": "scheduler",
        "recorder": "recorder",
        "arrivals": "arrivals",
        "plan": "plan",
    },
    "scheduler": {"self": "scheduler", "manager": "manager", "swap": "swap", "plan": "plan"},
    "manager": {"self": "manager", "pool": "pool", "seen": "seen"},
    "seen": {"self": "seen"},
    "swap": {"self": "swap"},
    "cost": {"self": "cost"},
    "request": {},
    "pool": {"self": "pool"},
    "recorder": {},
    "arrivals": {},
    "plan": {},
}
"""Parts by the names under which others know them. Each has its fields in one record."""

CLOCKS = {
    ("loop", "now_as"),
    ("loop", "until_as"),
    ("loop", "horizon_as"),
    ("recorder", "next_sample_as"),
    ("arrivals", "next_as"),
}
"""Instants: more than 64 bits of attoseconds, so seconds and the rest."""

LISTS = {
    ("scheduler", "waiting"): "deque",
    ("scheduler", "running"): "list",
    ("scheduler", "prefilling"): "list",
    ("scheduler", "held"): "list",
    ("scheduler", "leaving"): "list",
    ("scheduler", "departing"): "list",
    ("scheduler", "_finished"): "list",
    ("scheduler", "_unreported"): "list",
}
HEAPS = {
    ("scheduler", "_finishing"): "heap",
    ("scheduler", "_longest"): "heap",
    ("seen", "_order"): "ticks",
}
INTS = {
    ("manager", "_residues"): "ints",
    ("seen", "_ends"): "ints",
    ("seen", "_queued"): "ints",
}
PAIRS = {
    ("cost", "_windows"): "pairs",
    ("manager", "_due"): "pairs",
    ("manager", "_vectors"): "pairs",
}

LOCALS: dict[str, dict[str, str]] = {
    "scheduler": {
        "waiting": "deque",
        "running": "list",
        "finishing": "heap",
        "longest": "heap",
        "first": "list",
        "finished": "list",
        "complete": "list",
        "admitted": "list",
        "preempted": "list",
        "chunks": "chunks",
    },
    "loop": {"first": "list", "finished": "list"},
    "cost": {"chunks": "chunks"},
    "manager": {"residues": "ints"},
}
"""Names of local variables and parameters that are lists."""

CHUNK = ("request", "start", "tokens", "last")

REQUEST = (
    "arrival_ns",
    "admission",
    "cached",
    "generated",
    "held",
    "host_bytes",
    "joined_tick",
    "lost",
    "output",
    "preemptions",
    "prompt",
    "recomputed",
    "row",
    "stored",
    "swapped",
    "swapped_bytes",
    "target",
    "unsettled",
)
"""A request's integers, as `sim.sequence.Sequence` has them; `row` is the trace's."""

TIMES = ("scheduled", "first", "finish", "away", "gone", "back")
"""Instants of a request: `_s` is -1 while there was none."""

GIVEN = {
    "by_admission",
    "contexts",
    "tokens",
    "drop_preempted",
    "scheduler__plan",
    "recorder_sample",
    "recorder_stepped",
    "recorder_completed",
    "arrivals_receive",
    "arrivals_answered",
    "cost__reading_as",
    "swap_store",
    "swap_load",
}
"""Functions that `given` has in both forms: lists, records and clocks rather than decisions."""
