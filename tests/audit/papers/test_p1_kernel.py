"""The kernel claims of P1: what they find, and that each can find the opposite."""

from dataclasses import replace

import pytest
import torch

from attangent import AttangentError
from attangent.audit import Verdict, registry
from attangent.audit.papers.p1 import kernel_decomposition
from attangent.audit.papers.p1.kernel_decomposition import take_step, walk
from attangent.audit.papers.p1.kernel_scaling import line, measure
from attangent.audit.papers.p1.prefix_regression import hard_regression, limit_ratio, ordinary_regression
from attangent.kernels import PrefixNetwork, Tangent

FOUND = {
    "P1/claim-f.12": "holds",
    "P1/definition-g.1": "violated",
    "P1/lemma-3.1": "holds",
    "P1/claim-g.4": "measured",
    "P1/lemma-h.1": "holds",
    "P1/lemma-h.2": "measured",
    "P1/lemma-h.3": "violated",
    "P1/lemma-i.3": "measured",
    "P1/lemma-i.4": "violated",
    "P1/lemma-i.5": "measured",
    "P1/lemma-i.6": "violated",
    "P1/theorem-3.2": "violated",
    "P1/proposition-3.3": "violated",
    "P1/lemma-k.1": "holds",
    "P1/lemma-k.2": "holds",
}


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | changes, seed)


def conclusion(finding, start):
    return next(c for c in finding.conclusions if c.name.startswith(start))


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    finding = check(id, seed=1)
    assert finding.verdict == verdict
    assert finding.figures


BROKEN = {
    "P1/lemma-3.1": {"C": 0.0, "x_norm": 1e4},
    "P1/claim-g.4": {"rate": 100.0},
    "P1/lemma-h.1": {"rate": 400.0},
    "P1/lemma-h.2": {"m": 16, "init": "independent", "sigma": 3.0},
    "P1/lemma-i.3": {"C": 0.0, "rate": 1e14, "steps": 3},
    "P1/lemma-i.5": {"C": 0.0, "sigma": 1e4, "steps": 3},
    "P1/lemma-k.1": {"C": 0.0},
    "P1/lemma-k.2": {"C": 0.0, "sigma": 3.0},
}


@pytest.mark.parametrize(("id", "changes"), BROKEN.items(), ids=BROKEN)
def test_violated_where_a_hypothesis_is_broken(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


def test_gradient_claim_finds_a_wrong_formula(monkeypatch):
    def without_values(self, X, Y):
        return self.tangent(X, kind="paper").pull_back(self.forward(X) - Y)

    monkeypatch.setattr(PrefixNetwork, "gradient", without_values)
    assert check("P1/claim-f.12").verdict is Verdict.VIOLATED


EASY = {"n": 3, "d": 3, "sigma": 1.0, "candidates": 1}
BENIGN = {
    "P1/theorem-3.2": {**EASY, "steps": 100},
    "P1/lemma-i.4": EASY,
    "P1/lemma-i.6": {"init": "symmetric"},
    "P1/proposition-3.3": {"hard": {**EASY, "m": 256, "steps": 200}},
}


@pytest.mark.parametrize(("id", "changes"), BENIGN.items(), ids=BENIGN)
def test_not_violated_on_data_that_obey(id, changes):
    assert check(id, **changes).verdict in (Verdict.HOLDS, Verdict.MEASURED)


def test_kernel_claim_holds_if_the_value_part_is_kept(monkeypatch):
    monkeypatch.setattr(Tangent, "without_direct", lambda self: self)
    assert check("P1/definition-g.1").verdict is Verdict.HOLDS


def test_minor_terms_are_accepted_when_they_are_minor(monkeypatch):
    def shrunk(p, settings, take_step):
        return [
            replace(step, terms={name: 1e-4 * value for name, value in step.terms.items()})
            for step in walk(p, settings, take_step)
        ]

    monkeypatch.setattr(kernel_decomposition, "walk", shrunk)
    assert check("P1/lemma-h.3").verdict is Verdict.MEASURED


@pytest.mark.parametrize("seed", range(3))
def test_the_counter_example_holds_on_every_seed(seed):
    finding = check("P1/theorem-3.2", seed)
    assert conclusion(finding, "largest |F(t)").kept is False
    assert conclusion(finding, "the same with lambda of the exact kernel").kept is True
    assert finding.numbers["largest |log L - log predicted|"] < 1e-4
    missing = {h.name: h.missing_decades for h in finding.hypotheses}
    assert missing["width m"] > 50
    assert missing["largest |x|"] == 0


def test_hard_data_are_in_the_unit_ball_and_hard():
    settings = registry.get("P1/theorem-3.2").quick | {"m": 64}
    p = hard_regression(settings, 0)
    assert p.X.norm(dim=1).max() <= 1 + 1e-12
    assert p.Y.norm(dim=1).max() == pytest.approx(1.0)
    assert limit_ratio(p.X, settings.sigma) < 0.2


def test_terms_are_what_their_definitions_say():
    settings = registry.get("P1/lemma-h.1").quick | {"m": 32}
    p = ordinary_regression(settings, 0)
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


def test_a_line_is_fitted_through_the_tail():
    slope, fit = line(torch.arange(5).double(), 3 - 2 * torch.arange(5).double())
    assert slope == pytest.approx(-2)
    assert fit == pytest.approx(1)


def test_compute_counts_parameters_points_and_steps():
    settings = registry.get("P1/proposition-3.3").quick | {"m": 64, "steps": 50}
    law = measure(settings, ordinary_regression(settings, 0))
    assert law.compute[1].item() == 64 * 3 * 3
    assert law.compute_to(2.0) == 0
    assert law.compute_to(1e-30) == float("inf")


def test_data_outside_the_unit_ball_are_refused_where_the_theorem_excludes_them():
    with pytest.raises(AttangentError, match="expected at most 1"):
        check("P1/claim-g.4", x_norm=2.0)
