"""`kvtwin advise`: choices weighed on the user's own trace."""

from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from workloads.console import console, print_json, sheet


def block_size(
    trace: str,
    /,
    *,
    model: str,
    gpu: str,
    tp: int = 1,
    gpu_memory_utilization: float = 0.9,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Recommend a paging block size for a trace: waste against tables and lookups.

    Parameters
    ----------
    trace
        A trace file, or the name of a shipped trace (`kvtwin list traces`).
    model
        A preset (`kvtwin list models`) or the path of a Hugging Face config.json.
    gpu
        A device (`kvtwin list gpus`), or one by numbers.
    tp
        GPUs the model is divided over.
    gpu_memory_utilization
        Share of the device's whole memory that the engine may use.
    json
        Print JSON instead of a table.
    """
    from sim.hardware import find_device
    from sim.memory.block_size import advise_block_size
    from sim.memory.ledger import kv_budget
    from sim.model.presets import find_model
    from workloads import read_trace

    ledger = kv_budget(
        find_model(model), find_device(gpu), tp=tp, gpu_memory_utilization=gpu_memory_utilization
    )
    advice = advise_block_size(read_trace(trace), ledger)
    if json:
        rows = [{**asdict(row), "cost": row.cost} for row in advice.curve]
        print_json({"recommended": advice.recommended, "curve": rows})
        return
    numbers = ("block size", "empty %", "tables %", "lookups %", "cost %", "fit at once")
    table = sheet(*numbers, "cost", right=numbers)
    most = max(row.cost for row in advice.curve)
    for row in advice.curve:
        best = row.block_size == advice.recommended
        table.add_row(
            f"{row.block_size}",
            f"{row.waste:.2f}",
            f"{row.table:.4f}",
            f"{row.lookup:.2f}",
            f"{row.cost:.2f}",
            f"{row.requests:.1f}",
            "█" * max(1, round(12 * row.cost / most)) + (" advised" if best else ""),
            style="bold" if best else None,
        )
    console().print(table)
    print(
        "\nempty: slots, of those held, mean over generated tokens; tables: 4 B a block, of its KV;"
        "\nlookups: a 32 B sector a block, layer and KV head, of the KV read (a lower bound);"
        "\ncost: their sum. Below 16 tokens a block is smaller than a tensor core's tile."
    )
