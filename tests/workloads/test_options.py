"""Fractions where whole numbers are meant, under a root App as `kvtwin` has one."""

from typing import Annotated

import pytest
from cyclopts import App, Parameter

from workloads import InputError
from workloads.options import whole_numbers

app = App(config=whole_numbers)
below = App(name="below")
app.command(below)


@below.command
def command(
    *,
    one: int = 1,
    some: Annotated[tuple[int, ...], Parameter(negative="")] = (),
    maybe: int | None = None,
    named: Annotated[int, Parameter(name=["--named", "-n"])] = 0,
    rate: float | None = None,
    text: str = "",
) -> tuple[object, ...]:
    return one, some, maybe, named, rate, text


def run(*tokens: str) -> object:
    return app(["below", "command", *tokens], result_action="return_value", exit_on_error=False)


@pytest.mark.parametrize("option", ["--one", "--some", "--maybe", "--named", "-n"])
@pytest.mark.parametrize("value", ["1.5", "2.0", "-0.5", "3."])
def test_a_fraction_is_refused(option: str, value: str) -> None:
    with pytest.raises(InputError, match=f"^{option} {value}: expected a whole number$"):
        run(f"{option}={value}")


def test_everything_else_is_let_through() -> None:
    tokens = ("--one=2", "--some=3", "--some=4", "--rate=1.5", "--text=1.5")
    assert run(*tokens) == (2, (3, 4), None, 0, 1.5, "1.5")
