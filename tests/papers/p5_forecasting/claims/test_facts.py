"""The tests of `facts.py`."""

from tests.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P5/fact-b.3": "violated",
        "P5/fact-b.4": "violated",
        "P5/fact-b.7": "violated",
        "P5/fact-b.9": "holds",
    }
    broken = {"P5/fact-b.9": {"C": 0.5}}
    benign = {
        "P5/fact-b.3": {"correlation": 0.0},
        "P5/fact-b.4": {"d": 1},
        "P5/fact-b.7": {"symmetric": True},
    }
