"""Options of the server that was measured, in its own words."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sim.measured.options import Options, server_options
from sim.measured.run import Measured


@dataclass(frozen=True, slots=True)
class ServerFlags:
    """Where the record doesn't tell; names and meanings are vLLM's.

    Parameters
    ----------
    server_log
        The server's start-up log: limits, types, prefix caching and the number of KV blocks.
    max_num_seqs
        Sequences of a step.
    max_num_batched_tokens
        Tokens of a step.
    max_model_len
        Longest context.
    num_gpu_blocks
        KV blocks that the server logged.
    block_size
        Tokens of a block.
    kv_cache_dtype
        auto, fp8 and so on.
    gpu_memory_utilization
        Fraction of a GPU's memory, where the number of blocks isn't known.
    enable_prefix_caching
        Whether full blocks are kept and found again.
    max_concurrency
        Requests that the client kept in flight at most.
    """

    server_log: Path | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    num_gpu_blocks: int | None = None
    block_size: int | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    enable_prefix_caching: bool | None = None
    max_concurrency: int | None = None

    def options(self, measured: Measured) -> Options:
        """Of the record, the log and these flags; later ones win."""
        given: list[tuple[str, dict[str, Any]]] = []
        if self.server_log is not None:
            from sim.measured.server_log import read_server_log

            given.append((str(self.server_log), read_server_log(self.server_log)))
        flags = {k: v for k, v in asdict(self).items() if k != "server_log"}
        return server_options(measured, *given, ("the command line", flags))


Flags = Annotated[ServerFlags | None, Parameter(name="*")]
