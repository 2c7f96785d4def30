"""What a recorded run of a real engine holds."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.hardware import device_called
from workloads.schema import Floats, Ints, Trace

META = "meta.json"
CONFIG, STEPS = "config.json", "steps.json"
"""Beside a record: the model as Hugging Face writes it, and the engine's own step times as a cost
table. A folder may hold either."""

SERIES = ("t", "running", "waiting", "kv_cache_pct")


@dataclass(frozen=True, slots=True)
class Measured:
    """Requests in order of arrival, seconds from the first of them."""

    name: str
    trace: Trace
    first_token_s: Floats  # (n,)
    last_token_s: Floats  # (n,)
    series: dict[str, Floats]  # samples once a second: t, running, waiting, kv_cache_pct; or none
    meta: dict[str, Any]
    recorded_row: Ints  # (n,) which row of the record each request was, from 0
    folder: Path | None = None

    def beside(self, name: str) -> Path | None:
        """The file of that name in the record's folder, if it holds one."""
        file = None if self.folder is None else self.folder / name
        return file if file is not None and file.is_file() else None

    def silence(self) -> str:
        """Who doesn't tell of the server, as an error begins."""
        if self.folder is None:
            return f"{self.trace.provenance.source}: a client's record doesn't say"
        if self.beside(META) is None:
            return f"{self.folder}: has no {META} that says"
        return f"{self.name}: {META} doesn't say"

    @property
    def preemptions(self) -> int | None:
        """As the run counted them, where it did."""
        count = self.meta.get("num_preemptions")
        return None if count is None else int(count)

    @property
    def counted(self) -> dict[str, int]:
        """Metrics that the engine counted itself, by their names here, where recorded."""
        names = {
            "num_preemptions": "num_preemptions",
            "prefix_cache_hit_tokens": "prefix_hit_tokens",
        }
        return {
            name: int(self.meta[key])
            for key, name in names.items()
            if self.meta.get(key) is not None
        }

    @property
    def output_tokens(self) -> Ints:
        """Tokens that each request got."""
        return self.trace.output_tokens

    @property
    def engine_options(self) -> dict[str, Any]:
        """What the engine was started with."""
        options: dict[str, Any] = self.meta.get("engine_kwargs", {})
        return options

    @property
    def gpu(self) -> str | None:
        """The device preset, where the run recorded a known device."""
        device = device_called(str(self.meta.get("hardware", {}).get("device_name", "")))
        return device.name if device else None

    @property
    def blocks(self) -> int | None:
        """KV blocks the engine had, where the run recorded them."""
        count = self.meta.get("kv_cache", {}).get("num_gpu_blocks")
        return None if count is None else int(count)

    @property
    def block_tokens(self) -> int:
        """Tokens of a KV block; vLLM's own default where the run doesn't tell."""
        return int(self.meta.get("kv_cache", {}).get("block_size") or 16)

    @property
    def records_kv(self) -> bool:
        """Whether KV use was recorded: a column of zeros says it was not."""
        return bool(self.series["kv_cache_pct"].any())
