"""Conversations that begin with the same tools and system prompt, given the same ids for them.

The published ids mean something inside their conversation only, so that a cache of all finds
nothing of one conversation in another, though an agent's tools and system prompt are the same in
each. The files say how many tokens those take: where model and both counts are equal, they are
taken for equal.
"""

from collections.abc import Iterator
from typing import Any

Key = tuple[Any, ...]


def share_system(found: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The same conversations with ids that mean the same in all of them.

    Those of the full blocks of tools and system prompt are shared, all others are kept apart. What
    isn't as it should be is left as it is, for whoever reads it to refuse.
    """
    shared: dict[Key, list[int]] = {}
    unused = 0
    for place, talk in found:
        try:
            names, unused = _names(talk, shared, unused)
        except (KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError):
            yield place, talk
            continue
        yield place, _renamed(talk, names) | {"hash_id_scope": "global"}


def _names(
    talk: dict[str, Any], shared: dict[Key, list[int]], unused: int
) -> tuple[dict[int, int], int]:
    """The new id of each of a conversation's own, and the first that nobody has."""
    first = talk["requests"][0]
    said = (talk.get("tool_tokens", 0), talk.get("system_tokens", 0))
    lead = first["hash_ids"][: sum(said) // talk["block_size"]]
    key = (talk["block_size"], *said, first.get("model"), len(lead))
    names: dict[int, int] = {}
    if talk.get("hash_id_scope", "local") == "local":
        if key not in shared:
            shared[key] = list(range(unused, unused + len(lead)))
            unused += len(lead)
        names = dict(zip(lead, shared[key], strict=True))
    for request in _requests(talk):
        for one in request["hash_ids"]:
            if one not in names:
                names[one], unused = unused, unused + 1
    return names, unused


def _requests(talk: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for part in talk["requests"]:
        yield from part["requests"] if part.get("type") == "subagent" else (part,)


def _renamed(talk: dict[str, Any], names: dict[int, int]) -> dict[str, Any]:
    def renamed(part: dict[str, Any]) -> dict[str, Any]:
        if part.get("type") == "subagent":
            return part | {"requests": [renamed(one) for one in part["requests"]]}
        return part | {"hash_ids": [names[one] for one in part["hash_ids"]]}

    return talk | {"requests": [renamed(part) for part in talk["requests"]]}
