"""What requests say: prompts made up, and after them what the model chose."""

import numpy as np
import torch

from workloads.schema import Ints, PrefixBlocks, Trace


class Text:
    """Token ids by request and position.

    A prompt's token comes from its position and from the request's number, or the name of the block
    where the trace names them: equal prefixes are equal text. What follows the prompt is the
    model's own greedy choice, kept on the device, so that a context that is computed again after a
    preemption is the same context.
    """

    def __init__(
        self, vocab_size: int, device: torch.device, requests: int, trace: Trace | None = None
    ) -> None:
        """Without a trace all is prompt, and of what was chosen only the newest token is kept."""
        self.vocab_size = vocab_size
        self._prefix: PrefixBlocks | None = None
        prompts, longest = np.zeros(requests + 1, dtype=np.int64), 1
        self._ends: Ints | None = None
        if trace is not None and len(trace):
            self._prefix, self._ends = trace.prefix, trace.prompt_tokens
            prompts[: len(trace)], longest = trace.prompt_tokens, int(trace.output_tokens.max())
        # One request more: padding of a batch has a place, too.
        self._prompts = torch.from_numpy(prompts).to(device)
        self.chosen = torch.zeros((requests + 1, longest), dtype=torch.int64, device=device)

    @property
    def nobody(self) -> int:
        """The number of a request that there isn't."""
        return len(self.chosen) - 1

    def choose(self, whose: torch.Tensor, positions: torch.Tensor, ids: torch.Tensor) -> None:
        """The tokens after those positions are these. All int64 [n], each request once."""
        self.chosen[whose, self._places(whose, positions + 1)] = ids

    def at(self, whose: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Chosen tokens at those positions. All int64 [n]."""
        return self.chosen[whose, self._places(whose, positions)]

    def _places(self, whose: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return (positions - self._prompts[whose]) % self.chosen.shape[1]

    def prompt(self, request: int, span: Ints) -> Ints:
        """Ids of a prompt's tokens at those positions. Shape: that of span."""
        return (self._seeds(request, span) * 7919 + span * 104_729 + 1) % self.vocab_size

    def prompt_end(self, request: int, stop: int) -> int:
        """How far positions below `stop` are the prompt's."""
        if self._ends is None or request >= len(self._ends):
            return stop
        return min(stop, int(self._ends[request]))

    def _seeds(self, request: int, span: Ints) -> Ints | int:
        """What the tokens at these positions of a request's prompt are made from."""
        prefix = self._prefix
        if prefix is None or request >= len(prefix.offsets) - 1:
            return request
        names = prefix.ids[prefix.offsets[request] : prefix.offsets[request + 1]]
        block = span // prefix.block_tokens
        inside = block < len(names)
        seeds = np.full(len(span), request, dtype=np.int64)
        seeds[inside] = names[block[inside]]
        return seeds
