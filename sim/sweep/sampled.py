"""Combinations of a space too large to try all, chosen by Optuna's tree of Parzen estimators.

Source: Bergstra et al., NIPS'11. One is asked for after the other in this process, so that the same
seed and the same values give the same combinations.
"""

import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from sim.sweep.grid import Grid, Value
from workloads.errors import InputError


def try_sampled(
    grid: Grid, trials: int, seed: int, worth: Callable[[dict[str, Value]], float | None]
) -> None:
    """Ask what combinations are worth, `trials` times, each time where more is to be expected.

    `worth` is None for a combination that can't be run. Raises InputError without Optuna, and where
    nothing varies.
    """
    try:
        optuna: Any = import_module("optuna")
    except ImportError:
        raise InputError(
            "--sampler tpe: needs Optuna; expected pip install 'kvtwin[optuna]'"
        ) from None
    if not grid.axes:
        raise InputError("--sampler tpe: expected options with several values to choose from")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    # configurations that differ in one option alone tell of each other: options are drawn together
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = {name: _places(optuna, values) for name, values in grid.axes.items()}
    for _ in range(trials):
        trial = study.ask(space)
        value = worth({name: values[trial.params[name]] for name, values in grid.axes.items()})
        if value is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, value)


def _places(optuna: Any, values: Sequence[Value]) -> Any:
    """Places of an option's values: in their order where they are ascending numbers."""
    try:
        numbers = [float(value) for value in values]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) > 1 and numbers == sorted(numbers):
        return optuna.distributions.IntDistribution(0, len(values) - 1)
    return optuna.distributions.CategoricalDistribution(list(range(len(values))))
