from attangent.audit import Verdict
from attangent.papers.p1_prefix.claims import repaired_attention as attention
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/theorem-4.1-repaired": "holds",
        "P1/corollary-j.3-repaired": "holds",
        "P1/equation-6-map-repaired": "holds",
    }
    broken = {
        "P1/corollary-j.3-repaired": {"order": 2},
        "P1/equation-6-map-repaired": {"constant": 0.9},
    }


def test_too_low_an_order_is_found_out(monkeypatch):
    monkeypatch.setattr(attention, "order_for", lambda bound, tolerance: 2)
    assert check("P1/theorem-4.1-repaired").verdict is Verdict.VIOLATED
