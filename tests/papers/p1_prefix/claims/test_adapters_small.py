import torch

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims import adapters_small

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
    monkeypatch.setattr(adapters_small, "disabled", lambda model: torch.no_grad())  # a state that stays on
    broken = claim.check(claim.quick | SMALL | {"slack": 10.0}, 0)
    assert broken.verdict == "violated"
    assert broken.conclusions[1].measured > 1e-3


def test_figure_2_comes_out_both_ways(monkeypatch):
    claim = get("P1/figure-2")
    monkeypatch.setattr(adapters_small, "base_model", lambda *given: torch.nn.Linear(1, 1))
    monkeypatch.setattr(adapters_small, "adapt", lambda model, method, *given: method.name)
    monkeypatch.setattr(adapters_small, "_tuned", lambda model, *given: model)
    for lora, verdict in ((0.5, "open"), (0.9, "smaller setting")):
        monkeypatch.setattr(
            adapters_small, "exact_match", lambda model, tokens, lora=lora: lora if model == "lora" else 0.5
        )
        found = claim.check(claim.quick, 0)
        assert found.verdict == verdict
        assert any(line.kept is False for line in found.conclusions if line.decides) is (lora == 0.9)
        assert found.smaller


def test_figure_2_the_whole_way():
    claim = get("P1/figure-2")
    found = claim.check(
        claim.quick | {"width": 32, "pretrain": 64, "pretrain_epochs": 1, "train": 32, "epochs": 1}, 0
    )
    assert len(found.figures[0].ticks) == 5


def test_sums_in_both_formats():
    known, asked = adapters_small.problems(50, 0, "x")
    assert torch.equal((known[:, 1] + known[:, 3]) % 10, known[:, 5])
    assert torch.equal(known[:, 5], asked[:, 5])
    assert torch.equal(asked[:, 2:4], known[:, [1, 3]])
