"""The tests of `papers/p1/kernel_perturbation.py`."""

import pytest

from attangent import AttangentError
from tests.audit.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-3.1": "open",
        "P1/claim-g.4": "measured",
    }
    broken = {
        "P1/lemma-3.1": {"C": 0.0, "x_norm": 1e4},
        "P1/claim-g.4": {"rate": 100.0},
    }

    def examine(self, finding):
        assert finding.figures


def test_data_outside_the_unit_ball_are_refused_where_the_theorem_excludes_them():
    with pytest.raises(AttangentError, match="expected at most 1"):
        check("P1/claim-g.4", x_norm=2.0)
