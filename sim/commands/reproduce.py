"""`kvtwin reproduce`: published experiments run again, beside the published numbers."""

from typing import Annotated

from cyclopts import Parameter

from workloads.console import console, print_json, sheet
from workloads.errors import InputError


def sosp23(
    *,
    requests: int = 7200,
    seed: int = 0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Reproduce the PagedAttention paper's memory shares and batch sizes (Kwon et al., SOSP'23).

    Parameters
    ----------
    requests
        Requests of each data set; 7,200 are the paper's hour of ShareGPT.
    seed
        Of arrivals and lengths.
    json
        Print JSON instead of a table.
    """
    if requests < 100:
        raise InputError(f"--requests {requests}: expected at least 100, or no memory fills")
    from sim.measured.sosp23 import ALPACA, SHAREGPT, reproduce

    rows = reproduce(requests, seed)
    if json:
        listed = [{**row._asdict(), "difference": row.difference} for row in rows]
        print_json(listed)
        return
    numbers = ("published", "simulated", "difference")
    table = sheet("data", "system", "quantity", *numbers, right=numbers)
    for row in rows:
        share = row.unit == "%"
        table.add_row(
            row.data,
            row.system,
            f"{row.quantity}, {'%' if share else 'requests'}",
            f"{row.published:.1f}" if share else f"{row.published:.2f}",
            f"{row.simulated:.1f}" if share else f"{row.simulated:.2f}",
            f"{row.difference:+.1f} points" if share else f"{row.difference:+.1f} %",
        )
    console().print(table)
    print(
        "\nOPT-13B, A100-40GB, 15,728 slots; Poisson arrivals, lognormal lengths with the published"
        "\nmeans and a CV of 1. 'external' has all that no buffer holds: holes, the buddy"
        "\nallocator's rounding. Paging's live share is of blocks in use."
        f"\nA step takes {SHAREGPT.step_s * 1e3:.1f} ms (ShareGPT) or {ALPACA.step_s * 1e3:.1f} ms"
        " (Alpaca), by Little's law from paging's published batch,"
        "\nwhich is therefore given, not predicted; the Orca rows don't depend on it."
    )
