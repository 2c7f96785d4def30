"""One request on its way through the engine."""


class Sequence:
    """Progress of a request, in tokens.

    While a sequence decodes, nothing here changes: its length follows from the policy's step
    counter (`tick`), so that a step of the whole batch costs the same for one sequence and a
    thousand. `stored` and `generated` are as of `joined_tick`.
    """

    __slots__ = (
        "admission",
        "arrival_as",
        "cached",
        "chain",
        "generated",
        "held",
        "host_bytes",
        "index",
        "joined_tick",
        "lost",
        "output",
        "preemptions",
        "prefix",
        "prompt",
        "recomputed",
        "stored",
        "swapped",
        "swapped_bytes",
        "target",
        "unsettled",
    )

    def __init__(
        self,
        index: int,
        arrival_as: int,
        prompt: int,
        output: int,
        prefix: tuple[int, list[int]] | None = None,
    ) -> None:
        self.index = index  # row in the trace
        self.arrival_as = arrival_as
        self.prompt = prompt
        self.output = output  # tokens it will generate (after any cut)
        self.prefix = prefix  # the trace's block size and the ids of the prompt's blocks
        self.chain: list[tuple[int, int]] | None = None  # the policy's own names of blocks
        self.target = prompt  # context to prefill before the next token can be sampled
        self.stored = 0  # tokens whose KV is in the cache
        self.unsettled = 0  # of `stored`, tokens still under way in a step planned ahead
        self.generated = 0
        self.joined_tick = -1  # when it began to decode; -1 while it prefills or waits
        self.admission = -1  # running number of its latest admission
        self.held = 0  # the policy's own count (blocks, slots) for this sequence
        self.cached = 0  # prompt tokens found in the cache at the first admission
        self.preemptions = 0
        self.recomputed = 0  # stored tokens lost to preemption
        self.lost = 0  # of those, by the latest one
        self.swapped = 0  # tokens whose KV waits on the host
        self.host_bytes = 0  # what that takes there
        self.swapped_bytes = 0  # moved for it so far, both ways

    @property
    def final(self) -> int:
        """Tokens of KV at the end: the last sampled token is never written."""
        return self.prompt + self.output - 1
