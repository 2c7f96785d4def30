"""Service levels and money: by hand on runs whose every stamp is known."""

import math

import numpy as np
import pytest

from sim.engine.record import Log
from sim.run.money import Money, money, money_metrics
from sim.run.service_level import Bound, attained, latencies, level_metrics, parse_level
from sim.run.simulation import simulate
from tests.sim.run.test_metrics import rough, smooth
from workloads.errors import InputError

__all__ = ["rough", "smooth"]
Served = tuple[Log, dict[str, int | float | None]]


def values(text: str, log: Log, makespan_s: float, gpus: int = 1) -> dict[str, float | None]:
    return {m.name: m.value for m in level_metrics(parse_level(text), log, makespan_s, gpus)}


def test_by_hand(smooth: Served) -> None:
    """TTFT 140, 225 and 321 ms; TPOT 129.8 and 114.5; E2E 789, 225 and 779; the end is at 899 ms.

    The median TTFT is 225, TPOT's p100 129.8; two of three are answered within both limits.
    """
    found = values("ttft_p50=250ms,tpot_p100=130ms", smooth[0], 0.899, gpus=2)
    assert found["slo_met"] == 1
    assert found["slo_ttft_ms_p50"] == pytest.approx(225)
    assert found["slo_tpot_ms_p100"] == pytest.approx((789 - 140) / 5)
    assert found["slo_used_share"] == pytest.approx(100 * (789 - 140) / 5 / 130)
    assert found["slo_attainment"] == pytest.approx(200 / 3)
    assert found["goodput"] == pytest.approx(2 / 0.899)
    assert found["goodput_per_gpu"] == pytest.approx(1 / 0.899)


def test_an_answer_of_one_token_has_no_tpot(smooth: Served) -> None:
    """B's: it counts as within any bound of TPOT, and in no percentile of it."""
    log = smooth[0]
    assert np.isnan(latencies(log.requests, log.end_s)["tpot"]).tolist() == [False, True, False]
    assert attained(parse_level("tpot_p50=115ms"), latencies(log.requests, log.end_s)).tolist() == [
        False,
        True,
        True,
    ]


def test_what_gets_no_answer_is_infinitely_late(rough: Served) -> None:
    """Of four requests the third is refused: TTFT 160, 160, - and 120 ms.

    Ranks are 120, 160, 160, infinity: the median holds, p90 lies between 160 and infinity.
    """
    found = values("ttft_p50=160ms", rough[0], 1.82)
    assert found["slo_met"] == 1
    assert found["slo_attainment"] == 75
    found = values("ttft_p90=1000s", rough[0], 1.82)
    assert found["slo_met"] == 0
    assert found["slo_ttft_ms_p90"] is None
    assert found["slo_used_share"] is None


def test_what_did_not_come_before_the_end_is_not_asked() -> None:
    """Two of three requests come within the horizon; the second is not answered by then."""
    run = simulate(
        "azure-2023-conv", model="llama-2-7b", gpu="a100-40gb", first=3, request_rate=1.0,
        cost="fixed:seconds=0.01", horizon=1.51, slo="e2e_p50=9s",
    )  # fmt: skip
    assert run["unfinished"] == 2
    arrivals = run.requests["arrival_s"]
    asked = int((arrivals <= 1.51).sum())
    assert run["slo_attainment"] == pytest.approx(100 / asked)


@pytest.mark.parametrize("percentile", [50, 90, 99, 99.9, 100])
@pytest.mark.parametrize("count", [1, 2, 3, 10, 101, 1000])
def test_so_many_beyond_the_limit_break_it(percentile: float, count: int) -> None:
    """`lost` is the fewest: the others may be 0, and with one fewer they may make it hold."""
    bound = Bound("ttft", percentile, 1.0)
    lost = bound.lost(count)
    barely = np.nextafter(1.0, 2)
    assert bound.value(np.array([0.0] * (count - lost) + [barely] * lost)) > 1
    assert bound.value(np.array([0.0] * (count - lost + 1) + [barely] * (lost - 1))) <= 1


def test_percentiles_are_numpys() -> None:
    seconds = np.random.default_rng(1).exponential(1, 57)
    for q in (1, 50, 90, 99, 100):
        assert Bound("ttft", q, 1.0).value(seconds) == np.percentile(seconds, q)
    assert Bound("ttft", 50, 1.0).value(np.array([1.0, math.inf, math.inf])) == math.inf
    assert Bound("ttft", 50, 1.0).value(np.array([1.0, 2.0, math.inf])) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ttft=2s", "expected a percentile of ttft"),
        ("ttft_p99=2", "expected a number and a unit"),
        ("ttft_p101=2s", "expected a percentile"),
        ("itl_p99=2s", "expected a percentile"),
        ("ttft_p0=2s", "expected a percentile"),
        ("ttft_p99=0s", "expected a limit above 0"),
        ("e2e_p9=2s,e2el_p9=3s", "E2E p9 is given twice"),
        ("", "expected a percentile"),
    ],
)
def test_what_is_no_level(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_level(text)
    assert said in str(caught.value)


def test_money_by_hand() -> None:
    """Two GPUs at $1.80 an hour make $3.60 an hour, $0.001 a second; at 500 tokens a second $2 a
    million. 700 W each are 1,400 J a second, 2.8 J a token."""
    known = money("h100", "l4=0.7/h,h100=1.80/h", "h100=700W")
    assert known == Money(1.8, 700)
    found = {m.name: m.value for m in money_metrics(known, 2, 500.0, 0.5)}
    assert found["cost_per_hour"] == pytest.approx(3.6)
    assert found["cost_per_million_tokens"] == pytest.approx(2)
    assert found["goodput_per_dollar"] == pytest.approx(1800 / 3.6)
    assert found["energy_per_million_tokens"] == pytest.approx(2.8e6)
    assert money_metrics(Money(), 2, 500.0, 0.5) == []


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("h100=2.50", "expected a device and a number such as h100=2.50/h"),
        ("2.50/h", "expected a device"),
        ("h100=2/h,h100=3/h", "given twice"),
        ("l4=2/h", "says nothing of h100, expected h100="),
    ],
)
def test_what_is_no_price(price: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        money("h100", price, None)
    assert said in str(caught.value)


def test_arrivals_drawn_anew_are_common_random_numbers() -> None:
    """At twice the rate every gap is half as long; another seed draws other gaps."""
    options = {"model": "llama-2-7b", "gpu": "a100-40gb", "first": 50, "arrivals": "poisson"}
    one, two, other = (
        simulate("azure-2023-conv", **options, request_rate=rate, seed=seed).requests["arrival_s"]  # type: ignore[arg-type]
        for rate, seed in ((2.0, 3), (4.0, 3), (2.0, 4))
    )
    assert np.allclose(one, 2 * two, rtol=1e-12)
    assert not np.allclose(one[1:], other[1:])
    with pytest.raises(InputError, match="expected a --request-rate"):
        simulate("azure-2023-conv", **options)  # type: ignore[arg-type]
