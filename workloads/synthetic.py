"""A seeded generator of traces."""

import math

import numpy as np

from workloads.arrivals import all_at_once, parse_arrivals, rate_note
from workloads.errors import InputError
from workloads.lengths import parse_length, resample
from workloads.read import Lengths
from workloads.schema import Provenance, Trace

MOST_REQUESTS = 10**9
"""A trace of more is a slip of the keyboard: three columns of it would take 24 GB."""


def generate(
    requests: int,
    request_rate: float,
    *,
    arrivals: str = "poisson",
    prompt: str = "1024",
    output: str = "128",
    lengths: Lengths | None = None,
    seed: int | np.random.Generator = 0,
) -> Trace:
    """Draw a trace; the same arguments give the same trace, on any machine with the same numpy.

    The first request is at 0.0 s and gaps have the mean 1 / request_rate; a rate of infinity puts
    all at 0.0 s, as in vLLM's benchmarks. `arrivals`, `prompt` and `output` are specs (see
    `parse_arrivals`, `parse_length`); `lengths`, where given, replaces both of the latter.
    Arrivals and lengths have generators of their own, so that changing one leaves the others.
    """
    if requests < 1:
        raise InputError(f"requests is {requests}, expected a whole number >= 1")
    if requests > MOST_REQUESTS:
        raise InputError(f"requests is {requests:,}, expected at most {MOST_REQUESTS:,}")
    if math.isnan(request_rate) or request_rate <= 0:
        raise InputError(f"request_rate is {request_rate}, expected a number > 0, in requests/s")
    if isinstance(seed, int) and seed < 0:
        raise InputError(f"seed is {seed}, expected a whole number >= 0")
    process = parse_arrivals(arrivals)
    if math.isinf(request_rate):
        process = all_at_once
    for_arrivals, for_prompts, for_outputs = np.random.default_rng(seed).spawn(3)
    with np.errstate(over="ignore"):
        arrival_s = process(requests, request_rate, for_arrivals)
    if not np.isfinite(arrival_s[-1]):
        raise InputError(f"request_rate {request_rate} is so low that arrivals are not finite")
    if lengths is None:
        prompt_tokens = parse_length(prompt)(requests, for_prompts)
        output_tokens = parse_length(output)(requests, for_outputs)
        drawn = f"prompt {prompt}, output {output}"
    else:
        prompt_tokens, output_tokens = resample(lengths, requests, for_prompts)
        drawn = f"lengths of {lengths.name}"
    unlike = None if process is all_at_once else rate_note(arrivals, request_rate, arrival_s)
    seeded = f", seed {seed}" if isinstance(seed, int) else ""
    return Trace(
        name="synthetic",
        arrival_s=arrival_s,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        provenance=Provenance(
            f"synthetic: {arrivals} at {request_rate:g} requests/s, {drawn}{seeded}",
            requests,
            notes=() if unlike is None else (unlike,),
        ),
    )
