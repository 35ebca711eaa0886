import torch

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims import adapters_both

SMALL = {
    "pretrain": 64,
    "pretrain_epochs": 1,
    "train": 32,
    "validation": 16,
    "test": 48,
    "epochs": 1,
    "width": 16,
}


def test_both_together(monkeypatch):
    claim = get("P1/appendix-c-orthogonal")
    tight = claim.check(claim.quick | SMALL | {"slack": 0.0}, 0)
    assert tight.verdict == "holds"
    assert tight.conclusions[0].measured == tight.conclusions[1].measured == 0
    monkeypatch.setattr(adapters_both, "disabled", lambda model: torch.no_grad())  # a state that stays on
    broken = claim.check(claim.quick | SMALL | {"slack": 10.0}, 0)
    assert broken.verdict == "violated"
    assert broken.conclusions[1].measured > 1e-3
