"""The tests of `papers/p4/figures_deep.py`."""

import torch

from attangent.audit import Verdict
from attangent.icl.transformer import InContextTransformer
from tests.audit.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/figure-2b": "holds",
        "P4/figure-5": "holds",
    }
    broken = {
        "P4/figure-2b": {"rate": 1e-6, "steps": 20},
        "P4/figure-5": {"rate": 1e-6, "steps": 10},
    }


def test_a_transformer_blind_to_labels_is_found_out(monkeypatch):
    right = InContextTransformer.forward
    monkeypatch.setattr(
        InContextTransformer, "forward", lambda self, v, y, q: right(self, v, torch.zeros_like(y), q)
    )
    assert check("P4/figure-2b", steps=40).verdict is Verdict.VIOLATED
