from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims.repaired import attention
from attangent.papers.p1_prefix.claims.updates import PrefixMap
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/theorem-4.1-repaired": "holds",
        "P1/corollary-j.3-hyper-repaired": "holds",
        "P1/section-4.1-updates-repaired": "holds",
        "P1/equation-6-map-repaired": "holds",
    }
    broken = {
        "P1/corollary-j.3-hyper-repaired": {"order": 2},
        "P1/equation-6-map-repaired": {"constant": 0.9},
    }


def test_too_low_an_order_is_found_out(monkeypatch):
    monkeypatch.setattr(attention, "order_for", lambda bound, tolerance: 2)
    assert check("P1/theorem-4.1-repaired").verdict is Verdict.VIOLATED


def test_directions_that_move_the_state_move_the_output(monkeypatch):
    right = PrefixMap.derivative
    monkeypatch.setattr(PrefixMap, "derivative", lambda self, P: right(self, P)[:-4])  # k forgotten
    assert check("P1/section-4.1-updates-repaired").verdict is Verdict.VIOLATED
