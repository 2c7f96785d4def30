"""What engines decide differently, each rule a named switch."""

from dataclasses import dataclass


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
