import pytest

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims.prefix_regression import slow_regression
from attangent.papers.p1_prefix.claims.repaired.training import follow
from tests.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P1/theorem-3.2-repaired": "holds",
        "P1/lemma-i.4-repaired": "holds",
        "P1/proposition-3.3-repaired": "holds",
        "P1/lemma-h.3-repaired": "holds",
    }
    broken = {
        "P1/theorem-3.2-repaired": {"rate": 2.1, "most_steps": 60},
        "P1/lemma-i.4-repaired": {"rate": 2.1, "most_steps": 60},
        "P1/proposition-3.3-repaired": {"rate": 2.1, "most_steps": 60},
        "P1/lemma-h.3-repaired": {"rate": 1.9},
    }


def test_a_run_is_followed_as_the_network_descends():
    settings = get("P1/theorem-3.2-repaired").quick | {"m": 64, "steps": 10}
    p = slow_regression(0.4, settings, 0)
    run = follow(p, p.rate(1.0), 10)
    assert run.squares.tolist() == pytest.approx((2 * p.train(settings).loss).tolist())
    assert run.contraction == pytest.approx(p.exact.lambda_min / p.exact.lambda_max)
    assert run.drift > 0
