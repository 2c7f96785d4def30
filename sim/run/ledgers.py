"""Where the memory of an engine goes, by its options: for `size` and for runs."""

from dataclasses import replace
from typing import NamedTuple

from sim.engine.limits import Limits
from sim.hardware import Device
from sim.memory.ledger import Ledger, kv_budget
from sim.model.geometry import Model
from sim.model.presets import find_model
from sim.run.engine_presets import Engine, find_engine
from sim.run.options import EngineOptions


class Resolved(NamedTuple):
    """Options of an engine with what their names stand for."""

    options: EngineOptions
    device: Device
    engine: Engine
    model: Model
    max_num_seqs: int
    max_num_batched_tokens: int

    def check_limits(self, max_model_len: int | None) -> None:
        """Raises InputError for what `simulate` refuses too."""
        limits = Limits(self.max_num_seqs, self.max_num_batched_tokens)
        if max_model_len is not None:
            replace(limits, max_model_len=max_model_len)

    def ledger(self, tp: int | None = None, **given: float | int | None) -> Ledger:
        """As the engine measures it, before what it keeps of the KV budget; on another number of
        GPUs, and with parts of it `given` (`kv_budget`)."""
        options = self.options
        return kv_budget(
            self.model,
            self.device,
            tp=options.tp if tp is None else tp,
            kv_dtype=options.kv_cache_dtype,
            gpu_memory_utilization=options.gpu_memory_utilization,
            kv_cache_memory_bytes=options.kv_cache_memory_bytes,
            max_num_batched_tokens=self.max_num_batched_tokens,
            max_num_seqs=self.max_num_seqs,
            profiled=self.engine.memory,
            **given,  # type: ignore[arg-type]
        )


def resolved(options: EngineOptions, device: Device) -> Resolved:
    """Names looked up, defaults filled in. Raises InputError for names that aren't known."""
    engine = options.engine
    if isinstance(engine, str):
        engine = find_engine(engine)
    model = options.model
    if not isinstance(model, Model):
        model = find_model(str(model), engine.casts)
    limits = engine.limits(device, options.max_num_seqs, options.max_num_batched_tokens)
    return Resolved(options, device, engine, model, *limits)
