"""The tests of `proofs_of_stages.py`."""

import pytest

from attangent.papers.p3_two_stage.claims import proofs_of_stages
from tests.papers.proofs import proofs_of, wrong_steps


@pytest.mark.parametrize("proof", proofs_of(proofs_of_stages), ids=lambda proof: proof.__name__)
def test_every_step_holds(proof):
    assert wrong_steps(proof) == []


def test_a_gradient_of_another_order_would_break_the_proof_of_theorem_4(monkeypatch):
    monkeypatch.setattr(proofs_of_stages, "half_slope", lambda d: d**-2)
    assert not all(step.holds for step in proofs_of_stages.theorem_4().steps)
