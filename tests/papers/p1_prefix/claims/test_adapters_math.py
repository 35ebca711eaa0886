import torch

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims import adapters_math


def test_figure_2_comes_out_both_ways(monkeypatch):
    claim = get("P1/figure-2")
    monkeypatch.setattr(adapters_math, "base_model", lambda *given: torch.nn.Linear(1, 1))
    monkeypatch.setattr(adapters_math, "adapt", lambda model, method, *given: method.name)
    monkeypatch.setattr(adapters_math, "_tuned", lambda model, *given: model)
    for lora, verdict in ((0.5, "open"), (0.9, "smaller setting")):
        monkeypatch.setattr(
            adapters_math, "exact_match", lambda model, tokens, lora=lora: lora if model == "lora" else 0.5
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
    known, asked = adapters_math.problems(50, 0, "x")
    assert torch.equal((known[:, 1] + known[:, 3]) % 10, known[:, 5])
    assert torch.equal(known[:, 5], asked[:, 5])
    assert torch.equal(asked[:, 2:4], known[:, [1, 3]])
