import pytest
import torch

from attangent.audit import Verdict
from attangent.kernels import unit_data
from attangent.papers.p1_prefix.claims import sums_of_steps
from attangent.papers.p1_prefix.claims.sums_of_steps import Sums, sums
from attangent.papers.p1_prefix.network import PrefixNetwork
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-h.8": "holds",
        "P1/lemma-h.9": "violated",
        "P1/lemma-h.10": "violated",
    }

    def examine(self, finding):
        assert finding.figures


def test_a_loss_that_grows_faster_is_found_out(monkeypatch):
    monkeypatch.setattr(sums_of_steps, "at_length", lambda settings, m, seed: Sums(1.0, 1.0, 1.0, float(m)))
    assert check("P1/lemma-h.8").verdict is Verdict.VIOLATED


def test_sums_that_fall_are_accepted(monkeypatch):
    monkeypatch.setattr(sums_of_steps, "at_length", lambda settings, m, seed: Sums(1 / m, 1 / m, 1 / m, 1.0))
    assert check("P1/lemma-h.9").verdict in (Verdict.HOLDS, Verdict.OPEN)
    assert check("P1/lemma-h.10").verdict is Verdict.MEASURED


def test_the_second_printed_term_saves_h_9_at_sigma_1():
    assert not check("P1/lemma-h.9", sigma=1.0).verdict.failed


def test_part_2_of_h_10_stands():
    parts = {name: part.verdict for name, part in check("P1/lemma-h.10").judgements.items()}
    assert parts == {"1": Verdict.VIOLATED, "2": Verdict.MEASURED}


def test_sums_by_hand():
    X, Y = unit_data(3, 2, 2, 0)
    network = PrefixNetwork(2, 8, 1.0, "independent", 0)
    gradient = network.gradient(X, Y)
    steps = max(abs(sum((gradient[:, r] @ x).item() for r in range(8))) for x in X)
    residual = (network.forward(X) - Y).norm().item()
    found = sums(X, Y, network)
    assert found[0].item() == pytest.approx(steps / residual)
    assert found[3].item() == pytest.approx(residual)
    # the change of alpha to first order, by a small step
    eta = 1e-7
    after = torch.exp(X @ (network.W - eta * gradient)).sum(dim=1)
    change = (after - torch.exp(X @ network.W).sum(dim=1)).abs().max().item()
    assert found[2].item() * eta * residual == pytest.approx(change, rel=1e-4)
