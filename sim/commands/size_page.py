"""The page of `kvtwin size -o`, from a ledger and its capacity curves."""

from pathlib import Path

from reports.run_json import Capacity, LedgerLine
from reports.size_page import SizePage, size_page
from sim.memory.capacity import Curve
from sim.memory.ledger import Ledger


def write_page(
    path: Path,
    ledger: Ledger,
    curves: list[Curve],
    binds: str,
    buys: list[tuple[str, int]],
    whose: str,
    ranks: int = 1,
) -> None:
    """Write one HTML file that needs nothing else; of one of so many data-parallel ranks.

    `whose` is the policy that `binds` and `buys` are of; empty where there is one.
    """
    model, device = ledger.model, ledger.device
    page = SizePage(
        model=model.name,
        gpus=f"{ledger.tp} × {device.name}" if ledger.tp > 1 else device.name,
        formula=model.formula(ledger.kv, ledger.tp),
        token_bytes=model.kv_growth_bytes(ledger.kv, ledger.tp),
        sequence_bytes=model.kv_window_bytes(ledger.kv, ledger.tp) + model.state_bytes(ledger.tp),
        notes=model.notes,
        lines=tuple(
            LedgerLine(name=line.name, bytes=line.size_bytes, why=line.why) for line in ledger.lines
        ),
        curves=tuple(Capacity(label=one.label, points=one.points) for one in curves),
        ranks=ranks,
        whose=whose,
        binds=binds,
        buys=buys,
    )
    path.write_text(size_page(page), encoding="utf-8")
