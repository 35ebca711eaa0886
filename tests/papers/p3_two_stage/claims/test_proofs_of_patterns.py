"""The tests of `proofs_of_patterns.py`."""

import pytest
import sympy as sp

from attangent.papers.p3_two_stage.claims import proofs_of_patterns
from attangent.papers.p3_two_stage.claims.two_stage_setting import easy_slope
from tests.papers.proofs import proofs_of, wrong_steps


@pytest.mark.parametrize("proof", proofs_of(proofs_of_patterns), ids=lambda proof: proof.__name__)
def test_every_step_holds(proof):
    assert wrong_steps(proof) == []


def test_the_symbolic_slope_is_that_of_the_checks():
    d = sp.symbols("d", positive=True)
    assert float(2 * proofs_of_patterns.half_slope(d).subs(d, 24)) == pytest.approx(easy_slope(24))


def test_a_wrong_slope_breaks_the_proofs_that_use_it(monkeypatch):
    monkeypatch.setattr(proofs_of_patterns, "half_slope", lambda d: 1 / d**2)
    for proof in (proofs_of_patterns.equation_21, proofs_of_patterns.equation_23):
        assert not all(step.holds for step in proof().steps)
