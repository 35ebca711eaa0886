import math

import pytest

from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims.tails import binomial_tail, chi_square_tail, signs_tail, urn_tail
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-d.3": "violated",
        "P1/lemma-d.5": "holds",
        "P1/lemma-d.6": "violated",
        "P1/lemma-d.8": "violated",
        "P1/lemma-d.9": "violated",
        "P1/lemma-d.10": "violated",
    }
    broken = {"P1/lemma-d.5": {"variance": 0.25}}
    benign = {
        "P1/lemma-d.3": {"half": 2.0, "third": 12.0},
        "P1/lemma-d.6": {"constants": [0.0]},
        "P1/lemma-d.8": {"places": [0.1, 0.5]},
        "P1/lemma-d.9": {"n": 400, "places": [2.0]},
        "P1/lemma-d.10": {"half": 2.0, "quarter": 21.0},
    }


def test_parts_of_chernoff_and_chi_square():
    tails = {name: part.verdict for name, part in check("P1/lemma-d.3").judgements.items()}
    assert set(tails.values()) == {Verdict.VIOLATED}
    lines = {name: part.verdict for name, part in check("P1/lemma-d.8").judgements.items()}
    assert lines == {"first line": Verdict.HOLDS, "second line": Verdict.VIOLATED}


def test_exact_probabilities_by_hand():
    assert binomial_tail(2, 1.0, True, lambda delta: delta)(1.0)[0] == pytest.approx(0.25)
    assert binomial_tail(2, 1.0, False, lambda delta: delta)(1.0)[0] == pytest.approx(0.25)
    assert chi_square_tail(2, lambda t: 2 * t, True)(1.0)[0] == pytest.approx(math.exp(-2))
    assert urn_tail(4, 2, 1.0, True, lambda delta: delta)(1.0)[0] == pytest.approx(1 / 6)
    assert signs_tail(4, 0.5, 2.0)(2.0) == (pytest.approx(0.125), pytest.approx(2 * math.exp(-2)))


def test_figures_of_the_counter_examples():
    finding = check("P1/lemma-d.3")
    assert finding.numbers["lower tail, mu = 20, delta = 0.5"] == pytest.approx(0.0094, abs=1e-4)
    assert finding.numbers["its bound"] == pytest.approx(0.0067, abs=1e-4)
    finding = check("P1/lemma-d.8")
    assert finding.numbers["second line, k = 1, t = 9"] == pytest.approx(0.00815, abs=1e-5)
    finding = check("P1/lemma-d.10")
    assert finding.numbers["lower tail"] == pytest.approx(0.0093, abs=1e-4)
    assert finding.numbers["upper tail"] == pytest.approx(0.05)
    assert finding.numbers["its bound, upper"] == pytest.approx(math.exp(-361 / 80))
    assert {part.verdict for part in finding.judgements.values()} == {Verdict.VIOLATED}
