"""The comparison table: a row a metric, a cell a run, the best cells marked.

Works on any metrics; the names listed here only decide order, headline rows and what is better.
Times and preemptions are compared among the runs that finished the most requests in full: a policy
that refuses long requests is quick and no better for it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from reports.formats import column
from reports.language import tr

LATENCIES = ("ttft_ms_", "tpot_ms_", "itl_ms_", "e2el_ms_", "queue_ms_")

GROUPS: dict[str, tuple[str, ...]] = {
    "Outcome": ("requests", "finished", "truncated", "refused", "unfinished", "truncated_tokens"),
    "KV memory": ("kv_",),
    "Scheduling": ("running_", "waiting_", "num_preemptions", "recomputed_tokens"),
    "Throughput": (
        "makespan_s",
        "request_throughput",
        "output_throughput",
        "total_token_throughput",
    ),
    "Latency": LATENCIES,
    "Service level": ("slo_", "goodput"),
    "Cost": ("cost_", "energy_"),
    "Engine": ("steps", "prefill_tokens", "decode_tokens", "busy_share"),
}
"""Prefixes of metric names by group; what matches none comes last, under its own heading."""

HEADLINE = (
    "finished",
    "truncated",
    "refused",
    "unfinished",
    "kv_live_share_mean",
    "kv_live_of_used_mean",
    "kv_used_peak_bytes",
    "running_mean",
    "waiting_mean",
    "num_preemptions",
    "makespan_s",
    "request_throughput",
    "output_throughput",
    "ttft_ms_p50",
    "ttft_ms_p99",
    "tpot_ms_p50",
    "e2el_ms_mean",
    "e2el_ms_p99",
    "slo_met",
    "goodput",
    "cost_per_million_tokens",
)

HIGHER = ("finished", "request_throughput", "output_throughput", "total_token_throughput",
          "kv_live_of_used_mean", "slo_met", "slo_attainment", "goodput")  # fmt: skip
LOWER = ("truncated", "refused", "unfinished")
LOWER_AMONG_EQUALS = ("makespan_s", "num_preemptions", "recomputed_tokens", "waiting_", *LATENCIES)


class MetricLike(Protocol):
    """A row of `run.json`'s metrics."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def unit(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def value(self) -> float | None: ...


class Row(NamedTuple):
    """One metric over all runs; `best` flags the cells to mark. `texts` show values in `unit`."""

    name: str
    label: str
    unit: str
    texts: tuple[str, ...]
    formula: str
    values: tuple[float | None, ...]
    best: tuple[bool, ...]
    headline: bool


def rows(runs: Sequence[Sequence[MetricLike]], *, comparable: bool = True) -> dict[str, list[Row]]:
    """Rows by group, in the producer's order within a group. A run that lacks a metric has null.

    Nothing is best among runs that aren't `comparable`.
    """
    tables = [{metric.name: metric for metric in metrics} for metrics in runs]
    definitions = {name: m for table in reversed(tables) for name, m in table.items()}
    order = dict.fromkeys(name for table in tables for name in table)
    served = [_value(table, "finished") for table in tables]
    grouped: dict[str, list[Row]] = {group: [] for group in (*GROUPS, "Other")}
    for name in order:
        definition = definitions[name]
        values = tuple(_value(table, name) for table in tables)
        family = [value for other in _family(name, order) for table in tables
                  if (value := _value(table, other)) is not None]  # fmt: skip
        unit, texts = column(values, definition.unit, family)
        if name == "slo_met":
            texts = ["–" if met is None else tr("yes") if met else tr("no") for met in values]
        grouped[_group(name)].append(
            Row(
                name,
                definition.label,
                unit,
                tuple(texts),
                definition.formula,
                values,
                _best(name, values, texts, served) if comparable else (False,) * len(values),
                name in HEADLINE,
            )
        )
    return {group: found for group, found in grouped.items() if found}


def _family(name: str, names: Iterable[str]) -> list[str]:
    """Metrics that are shown in one unit: the statistics of one latency."""
    prefix = next((latency for latency in LATENCIES if name.startswith(latency)), None)
    return [name] if prefix is None else [other for other in names if other.startswith(prefix)]


def _value(table: Mapping[str, Any], name: str) -> float | None:
    metric = table.get(name)
    return None if metric is None else metric.value


def _group(name: str) -> str:
    return next((group for group, names in GROUPS.items() if name.startswith(names)), "Other")


def _best(
    name: str,
    values: tuple[float | None, ...],
    texts: Sequence[str],
    served: Sequence[float | None],
) -> tuple[bool, ...]:
    """Nothing is best alone, nor where more than half are. What prints alike is alike."""
    if name.startswith(HIGHER):
        sign, fair = 1, [True] * len(values)
    elif name.startswith(LOWER):
        sign, fair = -1, [True] * len(values)
    elif name.startswith(LOWER_AMONG_EQUALS):
        most = max((count for count in served if count is not None), default=None)
        sign, fair = -1, [count == most for count in served]
    else:
        return (False,) * len(values)
    scores = [
        v * sign if v is not None and ok else None for v, ok in zip(values, fair, strict=True)
    ]
    top = max((score for score in scores if score is not None), default=None)
    best_texts = {text for text, score in zip(texts, scores, strict=True) if score == top}
    best = tuple(
        score is not None and text in best_texts for text, score in zip(texts, scores, strict=True)
    )
    return best if 2 * sum(best) <= len(values) else (False,) * len(values)
