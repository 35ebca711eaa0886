"""The tests of `papers/p4/loss.py`."""

import pytest

from tests.audit.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/lemma-5": "violated",
        "P4/lemma-6": "holds",
        "P4/equation-26": "holds",
        "P4/equation-66": "holds",
    }
    broken = {
        "P4/lemma-6": {"gamma": 2.0},
        "P4/equation-26": {"N": 4},
        "P4/equation-66": {"alpha_factor": 1.001},
    }
    benign = {
        "P4/lemma-5": {"tau": 1e-6},
    }


@pytest.mark.parametrize("id", ["P4/lemma-5"])
def test_the_corrected_form_holds(id):
    corrected = [line for line in check(id).conclusions if not line.claimed]
    assert corrected
    assert all(line.kept for line in corrected)
