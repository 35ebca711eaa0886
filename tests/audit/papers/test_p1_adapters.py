"""The claims of P1 Section 5: each comes out both ways."""

import pytest
import torch

from attangent.audit.papers.p1 import adapters_both, adapters_math, adapters_tables
from attangent.audit.registry import get

SMALL = {
    "pretrain": 64,
    "pretrain_epochs": 1,
    "train": 32,
    "validation": 16,
    "test": 48,
    "epochs": 1,
    "width": 16,
}


def fake_runs(monkeypatch, module, **accuracies):
    labels = {
        "ours": "NTK, calibrated",
        "theirs": "NTK as published",
        "lora": "LoRA",
        "prefix": "P-tuning v2",
    }
    runs = {
        labels.get(name, name): {"test": {"accuracy": value}, "parameters": 10.0, "train_loss": 1.0}
        for name, value in accuracies.items()
    }
    monkeypatch.setattr(module, "best_runs", lambda *given: runs)


@pytest.fixture
def no_stage(monkeypatch):
    stage = type("Stage", (), {"test": [0] * 400})
    monkeypatch.setattr(adapters_tables, "language_stage", lambda *given: stage)
    monkeypatch.setattr(adapters_tables, "digits_stage", lambda *given: stage)


@pytest.mark.parametrize(
    ("id", "rival"),
    [("P1/table-1", "lora"), ("P1/table-1", "prefix"), ("P1/table-2", "lora"), ("P1/table-2", "full")],
)
def test_tables_turn_on_a_rivals_clear_lead(monkeypatch, no_stage, id, rival):
    claim = get(id)
    level = {"ours": 0.7, "theirs": 0.7, "lora": 0.7, "prefix": 0.7, "full": 0.7, "head": 0.5}
    for lead, verdict in ((0.0, "holds"), (0.03, "holds"), (0.1, "violated")):
        fake_runs(monkeypatch, adapters_tables, **level | {rival: 0.7 + lead})
        assert claim.check(claim.quick, 0).verdict == verdict


def test_ours_does_not_decide(monkeypatch, no_stage):
    fake_runs(monkeypatch, adapters_tables, ours=0.1, theirs=0.7, lora=0.7, prefix=0.7, head=0.5)
    claim = get("P1/table-1")
    assert claim.check(claim.quick, 0).verdict == "holds"


def test_table_1_on_real_weights_is_open_without_data(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    claim = get("P1/table-1")
    assert claim.check(claim.full, 0).verdict == "open"


@pytest.mark.parametrize("id", ["P1/table-1", "P1/table-2"])
def test_the_whole_way(id):
    claim = get(id)
    found = claim.check(claim.quick | SMALL | {"pretrain_epochs": 0.2}, 0)
    assert 0 <= found.numbers["accuracy of LoRA"] <= 1
    assert found.numbers["numbers trained by NTK as published"] == 2 * 2 * (8 * 8 + 8)
    assert "Measured ranking" in found.remark


def test_figure_2_comes_out_both_ways(monkeypatch):
    claim = get("P1/figure-2")
    monkeypatch.setattr(adapters_math, "base_model", lambda *given: torch.nn.Linear(1, 1))
    monkeypatch.setattr(adapters_math, "adapt", lambda model, method, *given: method.name)
    monkeypatch.setattr(adapters_math, "_tuned", lambda model, *given: model)
    for lora, verdict in ((0.5, "holds"), (0.9, "violated")):
        monkeypatch.setattr(
            adapters_math, "exact_match", lambda model, tokens, lora=lora: lora if model == "lora" else 0.5
        )
        assert claim.check(claim.quick, 0).verdict == verdict


def test_figure_2_the_whole_way():
    claim = get("P1/figure-2")
    found = claim.check(
        claim.quick | {"width": 32, "pretrain": 64, "pretrain_epochs": 1, "train": 32, "epochs": 1}, 0
    )
    assert len(found.figures[0].ticks) == 4


def test_sums_in_both_formats():
    known, asked = adapters_math.problems(50, 0, "x")
    assert torch.equal((known[:, 1] + known[:, 3]) % 10, known[:, 5])
    assert torch.equal(known[:, 5], asked[:, 5])
    assert torch.equal(asked[:, 2:4], known[:, [1, 3]])


def test_both_together(monkeypatch):
    claim = get("P1/appendix-c-orthogonal")
    tight = claim.check(claim.quick | SMALL | {"slack": 10.0}, 0)
    assert tight.verdict == "holds"
    assert tight.conclusions[0].measured == tight.conclusions[1].measured == 0
    monkeypatch.setattr(adapters_both, "disabled", lambda model: torch.no_grad())  # a state that stays on
    broken = claim.check(claim.quick | SMALL | {"slack": 10.0}, 0)
    assert broken.verdict == "violated"
    assert broken.conclusions[1].measured > 1e-3
