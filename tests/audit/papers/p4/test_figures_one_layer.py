"""The tests of `papers/p4/figures_one_layer.py`."""

from attangent.audit.papers.p4 import figures_one_layer
from tests.audit.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P4/figure-2a": "holds",
        "P4/figure-3": "violated",
        "P4/figure-4": "violated",
    }
    broken = {
        "P4/figure-2a": {"rate": 1e-6, "steps": 50},
    }
    benign = {
        "P4/figure-3": {"lengths": [100]},
        "P4/figure-4": {"few": [1], "steps": 300},
    }


def test_wrong_turns_are_counted_from_both_sides():
    assert figures_one_layer._wrong_turns([8, 9, 10, 11, 12], [2.0, 1.0, 0.0, 1.0, 2.0], 10) == 0
    assert figures_one_layer._wrong_turns([8, 9, 10, 11, 12], [1.0, 2.0, 0.0, 2.0, 1.0], 10) == 2
