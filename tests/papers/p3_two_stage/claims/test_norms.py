"""The tests of `papers/p3/norms.py`."""

from tests.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P3/proposition-3": "violated",
        "P3/proposition-3-repaired": "holds",
        "P3/proposition-4": "holds",
    }
    broken = {
        "P3/proposition-3-repaired": {"frame": "axes"},
        "P3/proposition-4": {"gradient_factor": 0.1},
    }
    benign = {
        "P3/proposition-3": {"frame": "random"},
    }
