"""Requests for the living engine: seeded lengths, arrivals and prompts, some with one beginning."""

from dataclasses import dataclass
from random import Random
from typing import Any

BLOCK = 32
BEGINNINGS = 3
VOCABULARY = 64_000


@dataclass(frozen=True)
class Load:
    """What is asked of an engine whose cache has so many blocks, the null block included."""

    name: str
    blocks: int
    requests: int
    request_rate: float
    prompt_tokens: tuple[int, int]  # least and most, a beginning not counted
    output_tokens: int  # on average

    def rows(self, seed: int = 0) -> list[dict[str, Any]]:
        """Poisson arrivals; half of the prompts begin with one of three texts of three blocks."""
        random = Random(f"{self.name} {seed}")
        texts = [_tokens(random, 3 * BLOCK) for _ in range(BEGINNINGS)]
        now, rows = 0.0, []
        for _ in range(self.requests):
            begin = random.choice(texts) if random.random() < 0.5 else []
            tokens = begin + _tokens(random, random.randint(*self.prompt_tokens))
            output = random.randint(self.output_tokens // 2, 3 * self.output_tokens // 2)
            rows.append({"arrival": now, "tokens": tokens, "output": output})
            now += random.expovariate(self.request_rate)
        return rows


def _tokens(random: Random, count: int) -> list[int]:
    return [random.randrange(VOCABULARY) for _ in range(count)]


def hash_ids(rows: list[dict[str, Any]]) -> list[list[int]]:
    """For each prompt the ids of its full blocks, equal where all tokens up to there are."""
    names: dict[tuple[int, ...], int] = {}
    return [
        [
            names.setdefault(tuple(row["tokens"][:end]), len(names))
            for end in range(BLOCK, len(row["tokens"]) + 1, BLOCK)
        ]
        for row in rows
    ]


LOADS = (
    Load("moderate", 257, requests=16, request_rate=1.2, prompt_tokens=(32, 224), output_tokens=24),
    Load("preempting", 29, requests=16, request_rate=6.0, prompt_tokens=(16, 64), output_tokens=72),
)
