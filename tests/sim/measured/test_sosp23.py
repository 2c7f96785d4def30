"""Kwon et al., SOSP'23, figures 2 and 13a/13b: shares within 6 points, batches within 15 %."""

from sim.measured.sosp23 import SYSTEMS, reproduce


def test_the_papers_shares_and_batches_come_out() -> None:
    """A third of the paper's hour, to stay quick."""
    rows = reproduce(requests=2400, seed=1)
    shares = [row for row in rows if row.unit == "%"]
    batches = [row for row in rows if row.unit == "requests"]
    assert len(shares) == 13
    assert len(batches) == 8
    for row in shares:
        assert abs(row.difference) <= 6, row
    for row in batches:
        assert abs(row.difference) <= 15, row
        if row.system == "Orca (Max)":
            assert row.simulated == 7
    live = [row.simulated for row in shares if row.quantity == "live"]
    assert live == sorted(live)  # in the order of SYSTEMS, as published
    for data in ("ShareGPT", "Alpaca"):
        order = [row.simulated for row in batches if row.data == data]
        assert order == sorted(order)
    assert [row.system for row in batches[:4]] == [system.name for system in SYSTEMS]
