"""The tests of `proofs.py`."""

import pytest

from attangent.papers.p4_in_context.claims import proofs
from tests.papers.proofs import proofs_of, wrong_steps


@pytest.mark.parametrize("proof", proofs_of(proofs), ids=lambda proof: proof.__name__)
def test_every_step_holds(proof):
    assert wrong_steps(proof) == []
