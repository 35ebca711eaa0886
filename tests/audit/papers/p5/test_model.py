"""The tests of `papers/p5/model.py`."""

import pytest

from attangent.audit import Verdict
from attangent.kernels import ScalarAttention
from tests.audit.papers.harness import ClaimSuite, checking, ours

check = checking(seed=1)


class TestClaims(ClaimSuite):
    found = {
        "P5/lemma-e.5": "holds",
        "P5/zero-initialisation": "holds",
        "P5/lemma-i.3": "not reproduced",
        "P5/lemma-i.4": "open",
        "P5/lemma-i.5": "open",
    }
    broken = {
        "P5/zero-initialisation": {"init": "independent"},
        "P5/lemma-i.4": {"constant": 0.0},
        "P5/lemma-i.5": {"constant": 0.0},
    }
    benign = {
        "P5/lemma-i.3": {"steps": 0},
    }
    check = staticmethod(check)

    def examine(self, finding):
        assert all(line.kept for line in ours(finding) if "risk with" not in line.name)


@pytest.mark.parametrize("method", ["gradient", "attention"])
def test_a_wrong_gradient_is_found_out(monkeypatch, method):
    right = getattr(ScalarAttention, method)
    monkeypatch.setattr(ScalarAttention, method, lambda self, *data: 1.0001 * right(self, *data))
    assert check("P5/lemma-e.5").verdict is Verdict.VIOLATED
