import torch

from attangent.attention.features import Printed, Taylor
from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import updates
from attangent.papers.p1_prefix.claims.updates import PrefixMap
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/section-4.1-updates": "violated",
        "P1/equation-6-map": "violated",
    }


def test_the_iff_part_by_part():
    parts = {name: part.verdict for name, part in check("P1/section-4.1-updates").judgements.items()}
    assert parts == {
        "P updating implies Z and k updating": Verdict.VIOLATED,
        "Z and k updating implies P updating": Verdict.HOLDS,
    }
    assert check("P1/section-4.1-updates").numbers["rank of the Jacobian of (Z, k) in P"] == 20


def test_a_map_that_forgets_nothing_is_accepted(monkeypatch):
    class Kept(PrefixMap):
        def __call__(self, P):
            return P.flatten()

    monkeypatch.setattr(updates, "PrefixMap", Kept)
    assert check("P1/section-4.1-updates").verdict is Verdict.HOLDS


def test_features_that_approximate_exp_are_accepted(monkeypatch):
    monkeypatch.setattr(updates, "Printed", lambda d: Taylor(d, 1))
    assert check("P1/equation-6-map", dims=[4, 8, 16, 32]).verdict is Verdict.HOLDS


def test_the_map_is_equation_7():
    torch.manual_seed(0)
    to_state, P = PrefixMap(Printed(3), 3, 0), torch.randn(5, 3, dtype=torch.float64)
    features = Printed(3)(P @ to_state.W_K)
    Z = sum(torch.outer(f, p @ to_state.W_V) for f, p in zip(features, P, strict=True))
    torch.testing.assert_close(to_state(P), torch.cat([Z.flatten(), features.sum(dim=0)]))
