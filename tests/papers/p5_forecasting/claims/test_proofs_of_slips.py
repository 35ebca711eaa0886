"""The tests of `proofs_of_slips.py`."""

import pytest

from attangent.papers.p5_forecasting.claims import proofs_of_slips
from tests.papers.proofs import proofs_of, wrong_steps


@pytest.mark.parametrize("proof", proofs_of(proofs_of_slips), ids=lambda proof: proof.__name__)
def test_every_step_holds(proof):
    assert wrong_steps(proof) == []
