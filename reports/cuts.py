"""Why requests are cut short or refused: the longest context, or the memory."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reports.formats import counted, gib
from reports.language import tr
from reports.load import Run
from workloads.spool import parts


class Cut(NamedTuple):
    """Counts of one run's requests that were not served in full."""

    short_by_context: int
    short_by_memory: int
    refused_by_context: int
    refused_by_memory: int
    unfinished: int


def cuts(run: Run) -> Cut:
    """What was cut by which limit: longer than the longest context, or within it."""
    longest = longest_context(run)
    counts = np.zeros((2, 2), np.int64)  # by what was done, and by whether the context asked for it
    if run.count("truncated") or run.count("refused"):
        for status, prompt, output in parts(
            run.requests, "status", "prompt_tokens", "output_tokens"
        ):
            beyond = prompt + output > longest
            for row, cut in enumerate((status == "truncated", status == "refused")):
                counts[row] += (cut & beyond).sum(), (cut & ~beyond).sum()
    return Cut._make([*counts.ravel().tolist(), run.count("unfinished")])


def longest_context(run: Run) -> int:
    """Tokens of prompt and output together."""
    return int(run.info.limits.get("max_model_len") or run.info.pool.max_len)


def served_whole_by_memory(run: Run) -> bool:
    """Whether memory cut nothing: what the context cuts is no policy's doing."""
    found = cuts(run)
    return not found.short_by_memory and not found.refused_by_memory


def cut_sentences(runs: Sequence[Run]) -> tuple[str, ...]:
    """A sentence a limit that cut something, once where all runs agree."""
    said = [_sentences(run) for run in runs]
    if len(runs) > 1 and all(own == said[0] for own in said):
        return tuple(tr("Under every policy: {sentence}", sentence=s) for s in said[0])
    if len(runs) == 1:
        return said[0]
    return tuple(
        tr("{label}: {sentence}", label=run.label, sentence=sentence)
        for run, own in zip(runs, said, strict=True)
        for sentence in own
    )


def _sentences(run: Run) -> tuple[str, ...]:
    found = cuts(run)
    of = counted(len(run.requests["status"]), "request")
    context = f"{longest_context(run):,}"
    budget = gib(run.info.pool.capacity_bytes)
    said = []
    if found.refused_by_context:
        said.append(
            tr(
                "{count} of {of} are refused: their prompts leave no room in the longest context "
                "of {context} tokens.",
                count=f"{found.refused_by_context:,}",
                of=of,
                context=context,
            )
        )
    if found.short_by_context:
        said.append(
            tr(
                "{count} of {of} are cut short by the longest context of {context} tokens.",
                count=f"{found.short_by_context:,}",
                of=of,
                context=context,
            )
        )
    if found.refused_by_memory:
        said.append(
            tr(
                "{count} of {of} are refused for want of memory: they fit the longest context, but "
                "not the KV budget of {budget} or the policy's own options.",
                count=f"{found.refused_by_memory:,}",
                of=of,
                budget=budget,
            )
        )
    if found.short_by_memory:
        said.append(
            tr(
                "{count} of {of} are cut short for want of memory: the KV budget of {budget} or "
                "the policy's own options.",
                count=f"{found.short_by_memory:,}",
                of=of,
                budget=budget,
            )
        )
    if found.unfinished:
        said.append(
            tr(
                "{count} of {of} are unfinished: the run was stopped before.",
                count=f"{found.unfinished:,}",
                of=of,
            )
        )
    return tuple(_singular(text) if text.startswith("1 of ") else text for text in said)


def _singular(text: str) -> str:
    """The English sentence of one request; other languages have one form."""
    for plural, one in (
        (" are ", " is "),
        ("their prompts leave", "its prompt leaves"),
        ("they fit", "it fits"),
    ):
        text = text.replace(plural, one, 1)
    return text
