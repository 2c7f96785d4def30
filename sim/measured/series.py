"""What a recorder of an engine's own log sees, and on which clock.

vLLM reports at the end of every step: those it served their last token have left by then, and the
step that was planned meanwhile has taken its requests. LLMServingSim's benchmark keeps the latest
report of every tick, under the time at which the tick ends; its clock starts with the engine, not
with the first request. How much earlier is in the record itself: a tick's prompt tokens are those
of the prompts that got their first token in it, and their stamps are exact.
"""

import numpy as np

from sim.engine.record import USES, Column, Log
from workloads.schema import Floats, Ints


def lead_s(
    tick_ends_s: Floats, prompt_tokens_per_s: Floats, first_token_s: Floats, prompt_tokens: Ints
) -> float:
    """Seconds by which the series' clock started before the first arrival.

    The middle of all leads with which every tick holds the prompt tokens that it counted; 0 where
    there is none, as where the series doesn't count them.
    """
    if len(tick_ends_s) < 2 or not prompt_tokens_per_s.any():
        return 0.0
    tick_s = float(np.diff(tick_ends_s).min())
    order = np.argsort(first_token_s, kind="stable")
    stamps = first_token_s[order]
    tokens = np.concatenate(([0], np.cumsum(prompt_tokens[order])))
    counted = np.cumsum(prompt_tokens_per_s * tick_s)
    seen = np.searchsorted(tokens, counted - 0.5)
    if (seen == len(tokens)).any() or (np.abs(tokens[seen] - counted) > 0.5).any():
        return 0.0
    inside, outside = seen > 0, seen < len(stamps)
    earliest = (tick_ends_s[outside] - stamps[seen[outside]]).max(initial=-np.inf)
    latest = (tick_ends_s[inside] - stamps[seen[inside] - 1]).min(initial=np.inf)
    if not -np.inf < earliest < latest < np.inf:
        return 0.0
    return float(earliest + latest) / 2


def reported_at(log: Log, seconds: Floats, capacity_bytes: int) -> dict[str, Column]:
    """The engine's latest report before each of these times, as columns of a timeline.

    Nothing runs and all memory is free before the first. Memory is as the step had it: with what
    those that left at its end held.
    """
    steps, requests = log.steps, log.requests
    ends, most = steps["end_s"], len(steps["end_s"]) - 1
    row = np.searchsorted(ends, seconds, side="left")  # which it lies in; a row may be many steps
    within = np.minimum(row, most)
    going = (row <= most) & (steps["steps"][within] > 1)
    going &= seconds > steps["start_s"][within] + steps["first_step_s"][within]
    last = np.where(going, within, row - 1)
    ended = ends[last]
    finishes = np.sort(requests["finish_s"])
    gone = np.searchsorted(finishes, np.where(going, steps["start_s"][last], ended), side="right")
    leaving = gone - np.searchsorted(finishes, ended, side="left")
    running = np.where(going, steps["decodes"][last], steps["running"][last] - leaving)
    arrived = np.searchsorted(requests["arrival_s"], np.where(going, seconds, ended), side="right")
    found = {"running": running, "waiting": np.maximum(arrived - gone - running, 0)}
    found |= {name: steps[name][last] for name in USES}
    found = {name: np.where(last < 0, 0, column) for name, column in found.items()}
    found["free_bytes"] = np.where(last < 0, capacity_bytes, found["free_bytes"])
    return {"time_s": seconds, **found}
