"""The tests of `papers/p5/generalisation.py`."""

import pytest

from attangent.audit import Verdict
from tests.audit.papers.harness import ClaimSuite, checking, measured, ours

check = checking(seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/proposition-6.3-attention": "holds",
        "P5/proposition-6.3-linear": "violated",
    }
    broken = {
        "P5/proposition-6.3-attention": {"sigma": 1.0, "steps": 50},
    }
    benign = {
        "P5/proposition-6.3-linear": {"corrected": True},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding) if "risk with" not in line.name)


def test_too_little_data_keeps_the_linear_network_off_the_noise_level():
    finding = check("P5/proposition-6.3-linear", corrected=True, n=10)
    assert finding.verdict is Verdict.VIOLATED
    assert measured(finding, "least squares") > 1.05


def test_the_linear_network_is_within_five_percent_of_its_risk():
    for seed in range(3):
        assert measured(check("P5/proposition-6.3-linear", seed), "least squares") == pytest.approx(
            1, abs=0.05
        )
