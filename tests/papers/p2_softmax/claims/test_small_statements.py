"""The tests of `small_statements.py`."""

import pytest

from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P2/lemma-5.3-quarter": "violated",
        "P2/table-1-exponent": "holds",
        "P2/definition-f.1": "holds",
        "P2/fact-a.5": "holds",
        "P2/lemma-a.9": "holds",
    }
    broken = {
        "P2/table-1-exponent": {"power": 1.0},
        "P2/definition-f.1": {"scale": 1.01},
        "P2/fact-a.5": {"slope": 1.0},
        "P2/lemma-a.9": {"factor": 1.0},
    }
    benign = {
        "P2/lemma-5.3-quarter": {"divisor": 2.0},
    }


def test_the_exponent_at_a_million_points():
    assert check("P2/table-1-exponent").numbers["exponent at n = 10^6"] == pytest.approx(55.9, abs=0.1)
