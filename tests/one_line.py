"""A mistake is told in one line."""

from collections.abc import Callable

import pytest

from workloads.errors import InputError


def one_line(call: Callable[[], object]) -> str:
    """What the InputError says that the call must raise."""
    with pytest.raises(InputError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)
