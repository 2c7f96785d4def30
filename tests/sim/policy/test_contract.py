"""Every policy and composition under the contract: 2,000 generated histories each."""

import pytest

from sim.policy.laws import FULL, MIXED, WIDE, check_policy
from tests.sim.specs import SPECS

HISTORIES = 2000


@pytest.mark.parametrize("spec", SPECS)
def test_contract(spec: str) -> None:
    """On a model of the kind that the policy is about."""
    kind = MIXED if "layers=" in spec else WIDE if spec.startswith("virtual") else FULL
    check_policy(spec, HISTORIES, (kind,))
