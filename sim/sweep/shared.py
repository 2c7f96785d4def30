"""A trace once in memory for any number of processes: Arrow columns, mapped and not copied."""

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from workloads.arrow import arrow_array
from workloads.schema import PrefixBlocks, Provenance, Trace, Turns

Buffer = bytes | NDArray[np.uint8]
PARTS: dict[str, type] = {"prefix": PrefixBlocks, "turns": Turns}


def shared_bytes(trace: Trace) -> pa.Buffer:
    """The trace as one Arrow IPC file: a row, and in each column a whole array as a list."""
    arrays: dict[str, Any] = {}
    plain: dict[str, Any] = {"name": trace.name, "provenance": asdict(trace.provenance)}
    for name in ("arrival_s", "prompt_tokens", "output_tokens"):
        arrays[name] = getattr(trace, name)
    for part in PARTS:
        if (held := getattr(trace, part)) is not None:
            plain[part] = {}
            for field in fields(held):
                value = getattr(held, field.name)
                if isinstance(value, np.ndarray):
                    arrays[f"{part}.{field.name}"] = value
                else:
                    plain[part][field.name] = value
    columns = {
        name: pa.LargeListArray.from_arrays(
            arrow_array(np.array([0, len(values)])),
            arrow_array(np.ascontiguousarray(values), missing=np.zeros(0, dtype=np.bool_)),
        )
        for name, values in arrays.items()
    }
    table = pa.table(columns).replace_schema_metadata({"kvtwin": json.dumps(plain)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def map_shared(source: Path | Buffer) -> Trace:
    """The trace of a file, which stays on disk until it is looked at, or of a file's bytes."""
    buffer = pa.memory_map(str(source)) if isinstance(source, Path) else pa.py_buffer(source)
    table = pa.ipc.open_file(buffer).read_all()
    plain = json.loads(table.schema.metadata[b"kvtwin"])
    arrays = {name: _mapped(table.column(name).chunk(0).values) for name in table.column_names}
    parts: dict[str, Any] = {}
    for part, kind in PARTS.items():
        if part in plain:
            own = {k.partition(".")[2]: v for k, v in arrays.items() if k.startswith(f"{part}.")}
            parts[part] = kind(**plain[part], **own)
    provenance = plain["provenance"]
    provenance["notes"] = tuple(provenance["notes"])
    return Trace(
        plain["name"],
        arrays["arrival_s"],
        arrays["prompt_tokens"],
        arrays["output_tokens"],
        Provenance(**provenance),
        **parts,
    )


def _mapped(values: pa.Array) -> NDArray[Any]:
    """A view. Arrow's own `to_numpy` would import pandas in every worker."""
    kind = values.type.to_pandas_dtype()  # numpy's
    if not len(values):
        return np.empty(0, dtype=kind)
    return np.frombuffer(values.buffers()[1], dtype=kind)[values.offset :][: len(values)]
