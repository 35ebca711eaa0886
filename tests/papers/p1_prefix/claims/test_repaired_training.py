import math

import pytest

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.claims.repaired_training import follow, sufficient
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/theorem-3.2-repaired": "holds",
        "P1/lemma-i.4-repaired": "holds",
        "P1/proposition-3.3-repaired": "holds",
        "P1/lemma-h.3-repaired": "holds",
    }
    broken = {
        "P1/theorem-3.2-repaired": {"rate": 2.5, "most_steps": 60},
        "P1/lemma-i.4-repaired": {"rate": 2.1, "most_steps": 60},
        "P1/proposition-3.3-repaired": {"rate": 2.1, "most_steps": 60},
        "P1/lemma-h.3-repaired": {"rate": 1.9},
    }


def test_a_run_is_followed_as_the_network_descends():
    settings = get("P1/lemma-i.4-repaired").quick | {"m": 64, "steps": 10}
    p = PrefixRegression.slow(0.4, settings, 0)
    run = follow(p, p.rate(1.0), 10)
    assert run.squares.tolist() == pytest.approx((2 * p.train(settings).loss).tolist())
    assert run.contraction == pytest.approx(p.exact.lambda_min / p.exact.lambda_max)
    assert run.drift > 0
    moved = p.train(settings).final.W - p.network.W
    assert run.movement >= moved.norm(dim=0).max().item() > 0


def test_the_explicit_length_is_met_at_one_point_and_not_at_a_shorter_prefix():
    finding = check("P1/theorem-3.2-repaired")
    assert all(hypothesis.met for hypothesis in finding.hypotheses)
    settings = get("P1/theorem-3.2-repaired").quick | {"d": 1, "m": 8}
    p = PrefixRegression.draw(settings, 0)
    enough = sufficient(p)
    assert enough.length > 8
    assert enough.length * enough.radius == pytest.approx(
        2 * _block_norm(p) * p.residual.norm().item() / p.exact.lambda_min
    )


def _block_norm(p):
    """G of the statement at R = 0.1."""
    b = (p.X @ p.network.W).abs().max().item()
    omega = p.network.W.norm(dim=0).max().item()
    return math.exp(2 * (b + 0.1)) * (2 * (omega + 0.1) + 1)
