"""A case: an engine's limits and the requests it gets. Plain numbers, known to both sides."""

from dataclasses import dataclass, field
from random import Random


@dataclass(frozen=True)
class Request:
    """A prompt whose first `shared` tokens are those of an earlier request, `like`."""

    arrival: int  # step before which it is there; a step takes one unit of time
    prompt: int
    output: int
    like: int = -1
    shared: int = 0


@dataclass(frozen=True)
class Case:
    """What a run depends on. `windows` are of the groups of layers; None is full attention."""

    seed: int
    blocks: int  # that can be handed out; the engine has a null block beside them
    block_size: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    requests: tuple[Request, ...]
    prefix: bool = False
    unit: int = 16  # tokens of a published block of prompts
    samples: int = 1  # outputs a prompt
    ahead: bool = False  # asynchronous scheduling
    users: int = 0  # closed loop: so many in flight, stamps unused; 0: an open loop
    long_prefill: int = 0  # long_prefill_token_threshold; 0: none
    watermark: float = 0.0
    windows: tuple[int | None, ...] = (None,)
    layers: tuple[int, ...] = field(default=(1,))  # in each group of equal layers
    states: int = 0  # layers that keep a state of a request, beside those of `layers`
    state_bytes: int = 1  # of a request in one of them, at most a page of a layer
    sparse: bool = False  # latent attention that reads what an indexer's keys choose

    @staticmethod
    def read(fields: dict[str, object]) -> "Case":
        """From what `dataclasses.asdict` and JSON made of it."""
        known = {**fields, "requests": tuple(Request(**r) for r in fields["requests"])}  # type: ignore
        for name in ("windows", "layers"):
            known[name] = tuple(known[name])  # type: ignore
        return Case(**known)  # type: ignore[arg-type]

    @property
    def tight(self) -> bool:
        """Whether a full batch of the longest requests outgrows the pool, prefixes not shared."""
        size = min(count for count in (*self.layers, self.states) if count)
        tables = sum(-(-count // size) for count in self.layers)
        fixed = -(-self.states // size)
        sizes = [min(r.prompt + r.output, self.max_model_len) for r in self.requests]
        blocks = sorted(-(-size // self.block_size) * tables for size in sizes * self.samples)
        return sum(fixed + count for count in blocks[-self.max_num_seqs :]) > self.blocks

    def prompts(self) -> list[list[int]]:
        """Tokens of each request's prompt. What isn't shared is never equal by chance."""
        random = Random(self.seed)
        prompts: list[list[int]] = []
        for request in self.requests:
            tokens = [random.getrandbits(40) for _ in range(request.prompt)]
            if request.like >= 0:
                like = prompts[request.like]
                head = min(request.shared, len(like), request.prompt)
                if not head == len(like) == request.prompt:  # ids tell no more than whole units
                    head -= head % self.unit
                tokens[:head] = like[:head]
            prompts.append(tokens)
        return prompts

    def published(self) -> list[list[int]]:
        """Ids of the prompts' blocks of `unit` tokens, equal where all tokens up to there are."""
        names: dict[tuple[int, ...], int] = {}
        found: list[list[int]] = []
        for tokens in self.prompts():
            ends = [
                min(end, len(tokens))
                for end in range(self.unit, len(tokens) + self.unit, self.unit)
            ]
            found.append([names.setdefault(tuple(tokens[:end]), len(names)) for end in ends])
        return found


@dataclass
class Step:
    """What an engine decided for one step, and what its pool looked like then."""

    at: int
    tokens: dict[int, int]  # of each request that runs
    admitted: dict[int, int]  # and how many tokens were found in the cache
    preempted: list[int]
    finished: list[int]  # since the step before
    free: int  # blocks, those with contents included
    evicted: int  # blocks with contents that were taken so far
