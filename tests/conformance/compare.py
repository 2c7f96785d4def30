"""Where two runs of a case part, the smallest case that still does, and its reproduction."""

from collections.abc import Callable
from dataclasses import replace

from tests.conformance.case import Case, Request, Step

Differs = Callable[[Case], str | None]


def difference(engine: list[Step], twin: list[Step]) -> str | None:
    """The first step that isn't the same, and what differs in it."""
    for number, (theirs, ours) in enumerate(zip(engine, twin, strict=False)):
        for name in Step.__dataclass_fields__:
            a, b = getattr(theirs, name), getattr(ours, name)
            if a != b:
                return f"step {number}: {name} is {a} in vLLM, {b} in kvtwin"
    if len(engine) != len(twin):
        return f"{len(engine)} steps in vLLM, {len(twin)} in kvtwin"
    return None


def shrink(case: Case, differs: Differs, tries: int = 400) -> Case:
    """A case with fewer and shorter requests that still differs."""
    progress = True
    while progress and tries > 0:
        progress = False
        for smaller in _smaller(case):
            tries -= 1
            if differs(smaller):
                case, progress = smaller, True
                break
            if tries <= 0:
                break
    return case


def _smaller(case: Case) -> list[Case]:
    rows = case.requests
    found = [replace(case, requests=_without(rows, i)) for i in range(len(rows)) if len(rows) > 1]
    for i, row in enumerate(rows):
        for change in (
            {"output": row.output // 2},
            {"output": row.output - 1},
            {"prompt": row.prompt // 2},
            {"prompt": row.prompt - case.block_size},
            {"arrival": rows[i - 1].arrival if i else 0},
            {"like": -1, "shared": 0},
        ):
            new = replace(row, **change)
            if new != row and new.prompt > 0 and new.output > 0:
                found.append(replace(case, requests=(*rows[:i], new, *rows[i + 1 :])))
    return found


def _without(rows: tuple[Request, ...], gone: int) -> tuple[Request, ...]:
    """Those like the one that goes lose what they shared; later ones move up."""
    kept = []
    for i, row in enumerate(rows):
        if i == gone:
            continue
        if row.like == gone:
            row = replace(row, like=-1, shared=0)
        elif row.like > gone:
            row = replace(row, like=row.like - 1)
        kept.append(row)
    return tuple(kept)


def reproduction(case: Case, why: str) -> str:
    """Lines of Python that run the case through both."""
    fields = [
        f"    {name}={getattr(case, name)!r}," for name in Case.__dataclass_fields__
        if name != "requests" and getattr(case, name) != Case.__dataclass_fields__[name].default
    ]  # fmt: skip
    rows = ", ".join(f"Request{tuple(vars(row).values())}" for row in case.requests)
    half = len(fields) // 2
    return "\n".join(
        [
            f"# {why}",
            "from tests.conformance.case import Case, Request",
            "from tests.conformance.__main__ import both",
            "case = Case(",
            *[
                " ".join(["   ", *[f.strip() for f in part]])
                for part in (fields[:half], fields[half:])
            ],
            f"    requests=({rows},),",
            ")",
            "both(case)",
        ]
    )
