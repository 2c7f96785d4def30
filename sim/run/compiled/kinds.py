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
    "manager": {
        "self": "manager",
        "pool": "pool",
        "seen": "seen",
        "retained": "retained",
        "cut": "cut",
        "space": "space",
        "trial": "trial",
        "calendar": "calendar",
        "cache": "cache",
        "blanks": "blanks",
        "windows": "windows",
    },
    "seen": {"self": "seen"},
    "swap": {"self": "swap"},
    "cost": {"self": "cost"},
    "request": {},
    "pool": {"self": "pool"},
    "retained": {"self": "retained"},
    "cut": {},
    "space": {},
    "trial": {},
    "calendar": {},
    "cache": {},
    "blanks": {},
    "windows": {},
    "pieces": {},
    "recorder": {},
    "arrivals": {},
    "plan": {},
    "flight": {},
    "kernel": {},
    "steps": {},
    "measured": {},
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
COPIES = {("manager", "_copied"): "copies"}
BY_REQUEST = {("manager", "buffers"): "buffer", ("manager", "_holds"): "hold"}
"""Parts of a request that others keep by its number: fields of it, under that beginning."""
UNSEEN = {"swap": ("self._out.", "self._in.")}
"""How calls begin that only an executor cares for, by the role in which they are made."""
RETURNED = {("calendar", "at"): "list"}
"""Lists that calls answer."""

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
ITEMS = {"chunk": CHUNK, "copied": ("request", "address", "units", "slots")}
"""Items of lists by the names under which they are looked at: four numbers each."""
PARTS = {"old": "buffer", "hold": "hold"}
"""Names of what `BY_REQUEST` knows."""

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

OWN = (
    "due",
    "buffer_address",
    "buffer_units",
    "buffer_slots",
    "buffer_final",
    "chain",
    "hold_done",
    "hold_first",
    "hold_inside",
    "hold_last",
    "hold_run",
    "hold_start",
)
"""What some managers keep of a request beside it."""

TIMES = ("scheduled", "first", "finish", "away", "gone", "back")
"""Instants of a request: `_s` is -1 while there was none."""
UNSET = ("joined_tick", "admission", "due", "chain", *(f"{name}_s" for name in TIMES))
"""What is -1 of a request at first; the rest is 0, or told by the trace."""

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
    "bit_length",
    "chain",
    "space_largest",
    "space_served",
    "space_allocate",
    "space_release",
    "space_copy",
    "trial_allocate",
    "trial_release",
    "calendar_expect",
    "calendar_forget",
    "calendar_next",
    "calendar_at",
    "cache_match",
    "cache_blocks",
    "cache_held_blocks",
    "cache_pin",
    "cache_publish",
    "cache_unpin",
    "cache_evict",
    "cache_next_to_go",
    "blanks_add",
    "blanks_since",
    "blanks_take",
    "blanks_clear",
    "windows_keep",
    "windows_join",
    "windows_rest",
    "windows_linear_for",
    "windows_advance",
    "windows_live_bytes",
    "windows_reads",
}
"""Functions that the other files have in both forms: containers, records and clocks rather than
decisions."""


def code(text: str) -> int:
    """A number that stands for a word, for comparing it."""
    return int.from_bytes(text.encode()[:7])
