"""The tests of `papers/p4/bounds.py`."""

import pytest

from tests.audit.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/lemma-7": "holds",
        "P4/lemma-8": "holds",
        "P4/lemma-10": "violated",
    }
    broken = {
        "P4/lemma-7": {"tokens": "gaussian", "d": 40},
        "P4/lemma-8": {"tokens": "gaussian", "d": 40},
    }
    benign = {
        "P4/lemma-10": {"log10_gammas": [0, 2], "log10_alphas": [-1, 0]},
    }


@pytest.mark.parametrize("id", ["P4/lemma-10"])
def test_the_corrected_form_holds(id):
    corrected = [line for line in check(id).conclusions if not line.claimed]
    assert corrected
    assert all(line.kept for line in corrected)
