"""The tests of `papers/p1/printed_tables.py`."""

import pytest

from attangent.papers.p1_prefix.claims.printed_tables import beyond_rounding
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/table-1-averages": "violated",
        "P1/table-1-lengths": "violated",
    }
    benign = {
        "P1/table-1-averages": {"printed": {"LoRA": (76.52, 90.23, 86.50, 65.09, 87.76, 81.22)}},
        "P1/table-1-lengths": {"last": [70.0, 75.0, 65.0, 62.0, 77.0, 69.8]},
    }


def test_only_loras_average_is_off():
    wrong = [line.name for line in check("P1/table-1-averages").conclusions if not line.kept]
    assert wrong == ["LoRA: distance beyond rounding"]
    assert check("P1/table-1-averages").numbers["average of the accuracies, LoRA"] == pytest.approx(81.22)


def test_rounding_is_forgiven():
    assert beyond_rounding((1.0, 1.01, 1.01)) == 0.0
    assert beyond_rounding((1.0, 1.0, 1.03)) == pytest.approx(0.02)
