"""Seeded random cases. Pools are small against what is asked for, so that they run short."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

from sim.policy.group_tables import layers_a_page
from tests.conformance.case import Case, Request

HYBRID = {"gemma-3": (52, 10), "gpt-oss": (12, 12)}
"""Layers with a window and layers of full attention in gemma-3-27b and in gpt-oss-20b."""

SUITES = (
    "plain", "prefix", *HYBRID, "samples", "ahead", "threshold", "closed", "states", "sparse"
)  # fmt: skip

STATES = (((0,), 4), ((1,), 3), ((2,), 7), ((4,), 4), ((4,), 5), ((6,), 10), ((2,), 18))
"""Layers of attention and of recurrence. As Mamba 2, Qwen3-Next (1:3), Falcon-H1 (1:1), LFM2 (6:10)
and Granite 4 (1:9) have them, and some that divide badly."""


def cases(suite: str, count: int, seed: int) -> Iterator[Case]:
    """So many cases of a suite; the same ones for the same seed."""
    for number in range(count):
        yield case(suite, seed * 1_000_000 + number)


def case(suite: str, seed: int) -> Case:
    """One case of the suite."""
    random = Random(f"{suite} {seed}")
    size = random.choice([16, 16, 32, 64])
    seqs = random.choice([2, 4, 8, 8, 16])
    budget = max(seqs, random.choice([size // 2 + 1, 64, 96, 256, 512]))
    samples = random.choice([2, 3, 4]) if suite == "samples" else 1
    prefix = suite in ("prefix", "samples") or (
        suite in ("ahead", *HYBRID, "threshold", "closed", "sparse") and random.random() < 0.5
    )
    unit = size * random.choice([1, 1, 2, 4])
    longest = random.choice([3, 4, 8]) * size + random.randint(0, size)
    requests = _requests(random, longest, unit if prefix else 0)
    if suite == "closed":
        requests = tuple(replace(request, arrival=0) for request in requests)
    asked = sum(sorted([-(-(r.prompt + r.output) // size) for r in requests] * samples)[-seqs:])
    windows: tuple[int | None, ...] = (None,)
    layers: tuple[int, ...] = (1,)
    states = 0
    if suite in HYBRID:
        windows, layers = (_window(random, size), None), HYBRID[suite]
    if suite == "states":
        layers, states = random.choice(STATES)
    tables = 1 if states else sum(-(-n // min(layers)) for n in layers)
    least = tables * (-(-longest // size) + 1)
    tight = random.choice([0.3, 0.45, 0.6, 1.1])
    blocks = max(least, int(asked * tables * tight))
    if states:
        blocks = _blocks_beside(blocks, layers[0], states, seqs, random)
    return Case(
        seed=seed,
        blocks=blocks,
        block_size=size,
        max_model_len=longest,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        requests=requests,
        prefix=prefix,
        unit=unit,
        samples=samples,
        ahead=suite == "ahead"
        or (suite in ("closed", "states", "sparse") and random.random() < 0.3),
        users=random.choice([1, 2, 8, 8, 32]) if suite == "closed" else 0,
        long_prefill=random.choice([size // 2, 24, 48]) if suite == "threshold" else 0,
        watermark=random.choice([0.0, 0.0, 0.0, 0.05, 0.2]),
        windows=windows,
        layers=layers,
        states=states,
        state_bytes=random.randint(1, size * 4) if states else 1,
        sparse=suite == "sparse",
    )


def _requests(random: Random, longest: int, unit: int) -> tuple[Request, ...]:
    found: list[Request] = []
    now = 0
    for _ in range(random.choice([3, 6, 10, 16])):
        now += random.choice([0, 0, 0, 0, 1, 3, 20])
        prompt = random.choice(
            [
                random.randint(1, max(1, longest // 8)),
                random.randint(1, max(1, longest // 2)),
                random.randint(1, longest - 2),
                max(1, unit or 16) * random.randint(1, max(1, longest // (2 * max(1, unit or 16)))),
            ]
        )
        prompt = min(prompt, longest - 1 + (random.random() < 0.02))  # some can never be served
        room = max(1, longest - prompt)
        output = random.randint(1, max(1, min(room, random.choice([3, 60, 150, 400]))))
        output += room * (random.random() < 0.03)  # and some are cut at the longest context
        like, shared = -1, 0
        if unit and found and random.random() < 0.6:
            like = random.randrange(len(found))
            shared = unit * random.randint(1, max(1, found[like].prompt // unit))
            if random.random() < 0.3:  # the whole prompt again
                prompt, shared = found[like].prompt, found[like].prompt
        found.append(Request(now, prompt, output, like, shared))
    return tuple(found)


def _window(random: Random, size: int) -> int:
    """Short against the model's own, as the contexts are."""
    return random.choice([size, 2 * size, 2 * size + 3, 4 * size])


def _blocks_beside(blocks: int, layers: int, states: int, seqs: int, random: Random) -> int:
    """Room for some requests' states too; without attention for these alone."""
    size = layers_a_page([count for count in (layers, states) if count])
    fixed = -(-states // size)
    if not layers:
        return fixed * random.randint(1, seqs)
    return -(-layers // size) * blocks + fixed * random.randint(1, seqs)
