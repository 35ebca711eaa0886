"""The tests of `proofs_of_steps.py`."""

import pytest

from attangent.papers.p3_two_stage.claims import proofs_of_steps
from tests.papers.proofs import proofs_of, wrong_steps


@pytest.mark.parametrize("proof", proofs_of(proofs_of_steps), ids=lambda proof: proof.__name__)
def test_every_step_holds(proof):
    assert wrong_steps(proof) == []
