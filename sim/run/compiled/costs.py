"""Numbers of measured step times, as `measured` and `measured_steps` read them.

Imported by runs that have some.
"""

from typing import TYPE_CHECKING, Any

from sim.cost.kernels.all_reduce import MeasuredAllReduce
from sim.cost.kernels.grid import Line
from sim.cost.kernels.model import KernelTable
from sim.cost.kernels.profile import GEMMS
from sim.run.compiled.tables import Table

if TYPE_CHECKING:
    from sim.cost.steps.model import Calibrated  # with all of pydantic

ENDLESS = 2**62


def kernel_table(cost: KernelTable) -> Table:
    """Of kernels; see `measured` for the order of numbers."""
    table, grid, rules = Table(), cost._attention, cost.rules

    def line(one: Line) -> int:
        return table.line(one.xs, one.ys)

    def rows(tree: dict[int, dict[int, Line]], with_decodes: bool) -> int:
        kept = {e: row for e, row in tree.items() if (max(row) if with_decodes else 0 in row)}
        return table.row(
            {e: table.row({n: line(one) for n, one in row.items()}) for e, row in kept.items()}
        )

    fields = table.fields
    fields["contexts"] = table.put([len(cost._contexts), *cost._contexts])
    alone = grid._tree[0][0]
    fields["decode_row"] = table.row({n: line(one) for n, one in alone.items()})
    fields["chunk_row"] = table.row(
        {
            chunk: table.put([rows(grid._tree[chunk], True), rows(grid._tree[chunk], False)])
            for chunk in grid.chunks
        }
    )
    layered = [
        number
        for kernel, one in cost._per_layer.items()
        for number in (
            line(one),
            int(rules.whole_tiles and kernel in GEMMS),
            2 if kernel == "layernorm" else 1,
        )
    ]
    fields["lines"] = table.put([len(layered) // 3, *layered])
    for name, lines in (
        ("step", cost._per_step.values()),
        ("sequence", cost._per_sequence.values()),
    ):
        places = [line(one) for one in lines]
        fields[f"{name}_lines"] = table.put([len(places), *places])
    experts = cost._experts
    fields["has_experts"] = int(experts is not None)
    fields["most_expert_tokens"] = experts.most_tokens if experts else 0
    known = range(1, experts.most_tokens + 1) if experts else range(0)
    woken = [experts.at(tokens) for tokens in known] if experts else []
    fields["experts"] = table.ys([0.0, *woken])
    fields["reduces"] = 0
    reduced = [0.0] * 5
    if isinstance(cost._reduce, MeasuredAllReduce):
        fields["reduces"], fields["reduce_line"] = 2, line(cost._reduce._line)
    elif cost._reduce:
        fields["reduces"], reduced = 1, [one.value for one in cost._reduce]
    skew = cost._skew
    fields["skewed"] = int(skew is not None)
    fields["skew_n"] = table.line(skew._n, skew._weighted) if skew else table.put([0, 0])
    fields["numbers"] = table.ys(
        [
            cost._key_us,
            cost._token_us,
            cost._pair_us,
            cost._hidden_us,
            rules.host_overhead_s * 1e6,
            skew.key_us if skew else 0.0,
            skew.unsplit_from if skew else 0.0,
            *reduced,
        ]
    )
    fields |= {
        "layers": cost._layers,
        "padded_to": rules.padded_to,
        "token_bytes": cost._token_bytes,
        "most_tokens": cost._most_tokens,
        "most_sequences": cost._most_sequences,
        "reduced_bytes": cost._reduced_bytes,
        "most_decodes": grid.most_decodes,
        "most_beside": grid.most_decodes_beside,
        "longest_earlier": grid.longest_earlier,
        "overlaps": int(cost._overlaps),
    }
    table.fields = {f"kernel_{name}": value for name, value in fields.items()}
    return table


def kernel_said(cost: KernelTable, said: list[tuple[int, int]]) -> None:
    """Tell the model what a run said of it, in the order in which it was first said."""
    grid = cost._attention
    limits = (
        ("tokens of a decode's context", cost._contexts[-1]),
        ("decoding requests", grid.most_decodes),
        ("tokens before a chunk", grid.longest_earlier),
        ("tokens of a chunk", grid.chunks[-1]),
        ("decoding requests beside a chunk", grid.most_decodes_beside),
        ("tokens of a step", cost._most_tokens),
        ("sequences of a step", cost._most_sequences),
    )
    for what in sorted((i for i, (order, _) in enumerate(said) if order), key=lambda i: said[i]):
        if what < len(limits):
            cost._say(*limits[what], said[what][1])
        else:
            cost.note_beside()


def steps_table(cost: "Calibrated") -> Table:
    table, section = Table(), cost._section

    def row(lines: dict[int, tuple[Any, Any]]) -> int:
        return table.row({key: table.line(xs, ys) for key, (xs, ys) in lines.items()})

    dense, sampling = cost._table.dense, cost._table.sampling
    contexts = sorted({context for line in section.decode for context in line.context})
    table.fields = {
        "steps_dense": table.line(dense.knots, dense.seconds),
        "steps_sampling": table.line(sampling.knots, sampling.seconds),
        "steps_prefill_row": row(
            {line.tokens: (line.past, line.seconds) for line in section.prefill}
        ),
        "steps_decode_row": row(
            {line.batch: (line.context, line.seconds) for line in section.decode}
        ),
        "steps_contexts": table.put([len(contexts), *contexts]),
        "steps_reach": table.put(cost.reaches),
        "steps_past_reach": table.put(cost.past_reaches),
        "steps_kept": ENDLESS if section.kept_tokens is None else section.kept_tokens,
        "steps_token_bytes": section.token_bytes,
        "steps_most_tokens": cost._most_tokens,
        "steps_most_batch": cost._most_batch,
        "steps_most_chunk": cost._most_chunk,
    }
    return table
