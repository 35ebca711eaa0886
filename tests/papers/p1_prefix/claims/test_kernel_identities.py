from attangent.audit import Verdict
from attangent.kernels import Tangent
from attangent.papers.p1_prefix.claims import kernel_identities
from attangent.papers.p1_prefix.network import PrefixNetwork
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/claim-f.12": "holds",
        "P1/definition-g.1": "violated",
        "P1/lemma-f.1": "holds",
        "P1/lemma-i.6": "violated",
        "P1/definition-i.1": "violated",
    }
    benign = {
        "P1/lemma-i.6": {"init": "symmetric"},
        "P1/definition-i.1": {"init": "symmetric"},
    }


def test_derivatives_that_are_off_are_found(monkeypatch):
    right = kernel_identities.jacrev
    monkeypatch.setattr(kernel_identities, "jacrev", lambda f: lambda W: 1.001 * right(f)(W))
    parts = check("P1/lemma-f.1").judgements
    assert all(part.verdict is Verdict.VIOLATED for part in parts.values())
    assert len(parts) == 8


def test_gradient_claim_finds_a_wrong_formula(monkeypatch):
    def without_values(self, X, Y):
        return self.tangent(X, kind="paper").pull_back(self.forward(X) - Y)

    monkeypatch.setattr(PrefixNetwork, "gradient", without_values)
    assert check("P1/claim-f.12").verdict is Verdict.VIOLATED


def test_kernel_claim_holds_if_the_value_part_is_kept(monkeypatch):
    monkeypatch.setattr(Tangent, "without_direct", lambda self: self)
    assert check("P1/definition-g.1").verdict is Verdict.HOLDS
