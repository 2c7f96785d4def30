"""What bounds a step, what gives way when memory runs out, and what engines decide differently."""

from dataclasses import dataclass, field
from typing import Literal

from workloads.errors import InputError


@dataclass(frozen=True, slots=True)
class Rules:
    """Scheduling rules beyond the limits of a step. The defaults are the synchronous loop."""

    async_scheduling: bool = False
    """A step is planned while the one before it runs, so its results are one step late."""

    reserve_whole_prompt: bool = True
    """A prompt is begun only where all of it fits, not just its first chunk."""

    preempted_first: bool = True
    """Who was preempted waits at the head of the queue, not at its end."""

    admit_after_preemption: bool = False
    """Whether a step that preempted may also admit."""


Preemption = Literal["recompute", "swap"]


Victim = Literal["last", "longest", "shortest"]
VICTIMS: dict[Victim, int] = {"last": 0, "longest": 1, "shortest": -1}
"""The sign of the contexts whose greatest goes; 0: contexts don't matter."""


@dataclass(frozen=True, slots=True)
class Pressure:
    """`recompute` drops a victim's KV (vLLM V1); `swap` moves it to host memory (vLLM V0).

    A victim for which the host has no room is recomputed. The victim is the request admitted last,
    or the one with the longest or shortest context (of equals the last admitted).
    """

    preemption: Preemption = "recompute"
    swap_space_bytes: int = 0  # host memory per GPU
    victim: Victim = "last"

    def __post_init__(self) -> None:
        if self.preemption == "swap" and self.swap_space_bytes < 1:
            raise InputError("--preemption swap: expected a --swap-space, such as 4GiB")


Batching = Literal["continuous", "static"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a step. The names are vLLM's.

    `static` batching is what came before continuous batching (Yu et al., Orca, OSDI'22): a batch
    is chosen when the engine is empty, prefilled whole, and answered when its last member ends.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int = 4096
    batching: Batching = "continuous"
    pressure: Pressure = field(default_factory=Pressure)
    rules: Rules = field(default_factory=Rules)
    long_prefill_token_threshold: int = 0
    """Longest chunk of a prompt while others run or wait; 0: what the step's budget leaves."""

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}, expected at least 1")
        if self.long_prefill_token_threshold < 0:
            raise InputError(
                f"long_prefill_token_threshold={self.long_prefill_token_threshold}, "
                "expected 0 (none) or more"
            )
        if self.max_model_len < 2:
            raise InputError(f"max_model_len={self.max_model_len}, expected at least 2")
        if self.batching == "continuous" and self.max_num_batched_tokens < self.max_num_seqs:
            raise InputError(
                f"max_num_batched_tokens={self.max_num_batched_tokens} is below "
                f"max_num_seqs={self.max_num_seqs}: a full batch could not decode"
            )
        if self.batching == "static" and self.rules.async_scheduling:
            raise InputError("batching=static: is not planned ahead, expected continuous")
