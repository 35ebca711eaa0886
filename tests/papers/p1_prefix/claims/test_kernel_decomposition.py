import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.papers.p1_prefix.claims import kernel_decomposition
from attangent.papers.p1_prefix.claims.kernel_decomposition import take_step, terms_at_infinity
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-h.1": "holds",
        "P1/lemma-h.2": "measured",
        "P1/lemma-h.3": "violated",
    }
    broken = {
        "P1/lemma-h.1": {"rate": 400.0},
        "P1/lemma-h.2": {"m": 16, "sigma": 3.0, "rate": 0.5, "steps": 100},
    }

    def examine(self, finding):
        assert finding.figures


def test_minor_terms_are_accepted_when_they_are_minor(monkeypatch):
    small = {"C0": 0.01, "C12": 0.01, "C3": 0.01}
    monkeypatch.setattr(kernel_decomposition, "terms_at_infinity", lambda p: small)
    assert check("P1/lemma-h.3").verdict is Verdict.HOLDS


def test_the_terms_at_infinite_length_are_those_of_a_long_prefix():
    settings = registry.get("P1/lemma-h.3").quick | {"m": 65536}
    p = PrefixRegression.draw(settings, 0)
    step, _ = take_step(p, p.network, p.rate(0.001))
    limit = terms_at_infinity(p)
    unit = settings.m * p.rate(0.001)
    for term in ("C0", "C12"):
        assert abs(step.terms[term]) / (unit * p.paper.lambda_min * step.before) == pytest.approx(
            limit[term], rel=0.35
        )
    assert step.terms["C3"] / step.before / unit**2 == pytest.approx(limit["C3"], rel=0.35)


def test_terms_are_what_their_definitions_say():
    settings = registry.get("P1/lemma-h.1").quick | {"m": 32}
    p = PrefixRegression.draw(settings, 0)
    rate = p.rate(0.5)
    step, moved = take_step(p, p.network, rate)
    W, W_after = p.network.W, moved.W
    u, u_after = torch.exp(p.X @ W), torch.exp(p.X @ W_after)
    theta = (W * p.network.a)[None] / u.sum(1)[:, None, None]  # (i, k, r)
    theta_after = (W_after * p.network.a)[None] / u_after.sum(1)[:, None, None]
    v0 = 32 * ((theta_after - theta) * u_after[:, None]).sum(2)
    R = p.network.forward(p.X) - p.Y
    assert step.terms["C0"] == pytest.approx(2 * (R * v0).sum().item(), rel=1e-9)
    z = -rate * p.X @ p.network.gradient(p.X, p.Y)
    v1 = 32 * (theta * (u * z)[:, None]).sum(2)
    assert step.terms["C11"] + step.terms["C12"] == pytest.approx(2 * (R * v1).sum().item(), rel=1e-9)
    first_order = step.terms["C0"] + step.terms["C11"] + step.terms["C12"]
    r = R.T.reshape(-1)
    exact = -2 * 32 * rate * (r @ p.exact.kernel @ r).item()
    assert first_order == pytest.approx(exact, rel=0.05)
