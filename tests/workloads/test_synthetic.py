"""The generator: deterministic, and with the moments asked for."""

import numpy as np
import pytest

from workloads import InputError, read_lengths
from workloads.arrivals import parse_arrivals
from workloads.lengths import parse_length
from workloads.made import make_workload
from workloads.synthetic import generate


def test_same_seed_same_trace_and_another_seed_another() -> None:
    one, two, other = (
        generate(200, 5, prompt="lognormal:mean=100,cv=1", seed=seed) for seed in (7, 7, 8)
    )
    assert one.arrival_s.tolist() == two.arrival_s.tolist()
    assert one.prompt_tokens.tolist() == two.prompt_tokens.tolist()
    assert one.arrival_s.tolist() != other.arrival_s.tolist()
    assert one.prompt_tokens.tolist() != other.prompt_tokens.tolist()


def test_a_generator_may_be_passed() -> None:
    one, two = (generate(9, 5, seed=np.random.default_rng(7)) for _ in range(2))
    assert one.arrival_s.tolist() == two.arrival_s.tolist()
    assert one.arrival_s.tolist() == generate(9, 5, seed=7).arrival_s.tolist()


def test_the_known_first_draws() -> None:
    trace = generate(
        3, 2, prompt="uniform:low=1,high=1000", output="lognormal:mean=50,cv=1", seed=1
    )
    assert trace.arrival_s.tolist() == pytest.approx([0.0, 1.37117811, 1.389716209], abs=1e-8)
    assert trace.prompt_tokens.tolist() == [942, 476, 144]
    assert trace.output_tokens.tolist() == [117, 17, 68]


def test_changing_lengths_leaves_arrivals() -> None:
    short, long = (generate(50, 5, arrivals="gamma:cv=2", prompt=p) for p in ("10", "99"))
    assert short.arrival_s.tolist() == long.arrival_s.tolist()


@pytest.mark.parametrize(
    ("arrivals", "cv"), [("poisson", 1), ("gamma:cv=0.5", 0.5), ("gamma:cv=3", 3), ("constant", 0)]
)
def test_gaps_have_the_rate_and_cv_asked_for(arrivals: str, cv: float) -> None:
    gaps = np.diff(generate(200_000, 5, arrivals=arrivals).arrival_s)
    assert gaps.mean() == pytest.approx(0.2, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03, abs=1e-6)


@pytest.mark.parametrize(("arrivals", "rate"), [("all-at-once", 5), ("poisson", float("inf"))])
def test_all_at_once(arrivals: str, rate: float) -> None:
    assert generate(4, rate, arrivals=arrivals).arrival_s.tolist() == [0.0] * 4


@pytest.mark.parametrize("spec", ["lognormal:mean=1000,cv=1.2", "lognormal:mean=1000,sigma=0.9445"])
def test_lognormal_moments(spec: str) -> None:
    drawn = parse_length(spec)(400_000, np.random.default_rng(0))
    assert drawn.mean() == pytest.approx(1000, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(1.2, rel=0.03)


def test_lengths_are_whole_and_at_least_one() -> None:
    rng = np.random.default_rng(0)
    assert parse_length("lognormal:mean=1,cv=9")(1000, rng).min() == 1
    assert set(parse_length("uniform:low=2,high=4")(1000, rng)) == {2, 3, 4}
    assert set(parse_length("fixed:tokens=5")(3, rng)) == set(parse_length("5")(3, rng)) == {5}


def test_empirical_lengths_stay_pairs() -> None:
    lengths = read_lengths("azure-2023-conv")
    pairs = set(zip(lengths.prompt_tokens.tolist(), lengths.output_tokens.tolist(), strict=True))
    trace = generate(2000, 5, lengths=lengths)
    drawn = list(zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True))
    assert pairs.issuperset(drawn)
    assert len(set(drawn)) > 1000


def test_one_request() -> None:
    assert generate(1, 5).arrival_s.tolist() == [0.0]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("normal:mean=1", "unknown kind 'normal', expected one of: fixed, uniform, lognormal"),
        ("", "unknown kind ''"),
        ("0", "tokens is 0, expected a number from 1e-06 to 1e+12"),
        ("fixed:tokens=1.5", "tokens is 1.5, expected a whole number from 1"),
        ("fixed:1024", "'1024', expected option=value"),
        ("uniform:low=5,high=2", "low is 5, expected at most high, 2"),
        ("uniform:low=5", "uniform needs all of low, high, found low"),
        ("lognormal:mean=5", "lognormal needs all of mean, cv, found mean"),
        ("lognormal:mean=5,cv=1,sigma=1", "lognormal needs all of mean, sigma, found"),
        ("lognormal:mean=nan,cv=1", "mean is nan, expected a number from 1e-06 to 1e+12"),
        ("lognormal:mean=-5,cv=1", "mean is -5, expected a number from 1e-06 to 1e+12"),
        ("lognormal:mean=5,mean=6", "mean is given twice"),
    ],
)
def test_bad_length_specs(spec: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_length(spec)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "spec",
    [
        "gamma",
        "gamma:cv=0",
        "gamma:cv=1e-300",
        "gamma:cv=1e300",
        "gamma:shape=1",
        "poisson:rate=5",
        "burst",
    ],
)
def test_bad_arrival_specs(spec: str) -> None:
    with pytest.raises(InputError, match=spec):
        parse_arrivals(spec)


def test_other_bad_arguments() -> None:
    with pytest.raises(InputError, match="requests is 0, expected"):
        generate(0, 5)
    with pytest.raises(InputError, match="request_rate is 0, expected"):
        generate(1, 0)
    with pytest.raises(InputError, match="request_rate is nan, expected"):
        generate(1, float("nan"))
    with pytest.raises(InputError, match="seed is -1, expected"):
        generate(1, 1, seed=-1)
    with pytest.raises(InputError, match=r"draws .* tokens, expected at most"):
        generate(1000, 1, prompt="lognormal:mean=1000000000,cv=9")
    for arrivals in ("poisson", "constant", "gamma:cv=2"):
        with pytest.raises(InputError, match="so low that arrivals are not finite"):
            generate(1000, 1e-308, arrivals=arrivals)


BURSTS = "bursts:factor=5,share=0.1,length=30"  # a burst and a calm take 30 / 0.1 = 300 s


@pytest.mark.parametrize(
    ("arrivals", "requests", "cycle"),
    [
        (BURSTS, 500, "a burst and a calm take 300 s"),  # some 250 s at 2 requests/s
        (BURSTS, 20_000, None),  # some 10,000 s, 33 cycles
        ("diurnal:swing=0.8,period=86400", 500, "a period takes 86,400 s"),
        ("diurnal:swing=0.8,period=100", 2000, None),
        ("gamma:cv=3", 500, None),
    ],
)
def test_a_rate_that_few_cycles_miss_is_said(
    arrivals: str, requests: int, cycle: str | None
) -> None:
    for trace in (
        generate(requests, 2.0, arrivals=arrivals),
        make_workload("summarisation", requests, 2.0, arrivals=arrivals),
    ):
        notes = trace.provenance.notes
        assert len(notes) == (cycle is not None)
        if cycle is not None:
            rate = requests / float(trace.arrival_s[-1])
            assert cycle in notes[0]
            assert notes[0].endswith(f"the rate is {rate:.4g} requests/s, not 2")
