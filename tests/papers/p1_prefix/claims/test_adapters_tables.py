import pytest

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims import adapters_tables
from attangent.papers.p1_prefix.claims.adapters_tables import beyond_rounding
from tests.papers.harness import ClaimSuite, check

SMALLER = {
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
        "theirs": "NTK, authors' code",
        "printed": "NTK, Eq. (7) start",
        "lora": "LoRA",
        "prefix": "P-tuning v2",
    }
    runs = {
        labels.get(name, name): {"test": {"accuracy": value}, "parameters": 10.0, "train_loss": 1.0}
        for name, value in accuracies.items()
    }
    monkeypatch.setattr(module, "runs_of", lambda *given: runs)


@pytest.fixture
def no_trial(monkeypatch):
    trial = type("PreparedTrial", (), {"test": [{"labels": i % 2} for i in range(400)]})
    monkeypatch.setattr(adapters_tables, "language_trial", lambda *given: trial)
    monkeypatch.setattr(adapters_tables, "digits_trial", lambda *given: trial)


LEVEL = {"ours": 0.7, "theirs": 0.7, "printed": 0.7, "lora": 0.7, "prefix": 0.7, "full": 0.7}


@pytest.mark.parametrize(
    ("id", "rival"),
    [("P1/table-1", "lora"), ("P1/table-1", "prefix"), ("P1/table-2", "lora"), ("P1/table-2", "full")],
)
def test_tables_turn_on_a_rivals_clear_lead_and_refute_nothing(monkeypatch, no_trial, id, rival):
    claim = get(id)
    for lead, verdict in (
        (0.0, "open"),
        (0.03, "open"),
        (0.1, "smaller setting"),
        (-0.1, "smaller setting"),
    ):
        fake_runs(monkeypatch, adapters_tables, **LEVEL | {rival: 0.7 + lead})
        found = claim.check(claim.quick, 0)
        assert found.verdict == verdict
        assert " for " in found.smaller
        lines = [line for line in found.conclusions if line.decides and line.kept is False]
        assert bool(lines) is (lead > 0.05)


def test_the_start_of_equation_7_is_a_part_of_its_own(monkeypatch, no_trial):
    fake_runs(monkeypatch, adapters_tables, **LEVEL | {"printed": 0.5})
    claim = get("P1/table-1")
    parts = {name: part.verdict for name, part in claim.check(claim.quick, 0).judgements.items()}
    assert parts == {"NTK, authors' code": "open", "NTK, Eq. (7) start": "smaller setting"}


def test_ours_does_not_decide(monkeypatch, no_trial):
    fake_runs(monkeypatch, adapters_tables, **LEVEL | {"ours": 0.1, "theirs": 0.9, "printed": 0.9})
    claim = get("P1/table-1")
    assert claim.check(claim.quick, 0).verdict == "smaller setting"


def test_table_1_on_real_weights_is_open_without_data(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    claim = get("P1/table-1")
    assert claim.check(claim.full, 0).verdict == "open"


@pytest.mark.parametrize("id", ["P1/table-1", "P1/table-2"])
def test_the_whole_way(id):
    claim = get(id)
    found = claim.check(claim.quick | SMALLER | {"pretrain_epochs": 0.2}, 0)
    assert 0 <= found.numbers["accuracy of LoRA"] <= 1
    assert found.numbers["trainable parameters of NTK, authors' code"] == 2 * 2 * (8 * 8 + 8)
    assert "Ranking on" in found.remark


def test_where_no_method_beats_the_most_frequent_label_nothing_is_decided(monkeypatch, no_trial):
    claim = get("P1/table-1")
    for best, verdict in ((0.52, "open"), (0.6, "smaller setting")):
        levels = {**dict.fromkeys(LEVEL, 0.45), "lora": best}
        fake_runs(monkeypatch, adapters_tables, **levels)
        found = claim.check(claim.quick, 0)
        assert found.numbers["fraction of the most frequent label"] == 0.5
        assert found.verdict == verdict
        assert ("nothing is decided" in found.remark) is (verdict == "open")


class TestPrintedTables(ClaimSuite):
    found = {
        "P1/table-1-averages": "violated",
        "P1/table-1-lengths": "violated",
    }
    benign = {
        "P1/table-1-averages": {"printed": {"LoRA": (76.52, 90.23, 86.50, 65.09, 87.76, 81.22)}},
        "P1/table-1-lengths": {"last": [70.0, 75.0, 65.0, 62.0, 77.0, 69.8]},
    }


def test_only_loras_average_is_off():
    wrong = [line.name for line in check("P1/table-1-averages").conclusions if not line.kept]
    assert wrong == ["LoRA: error beyond rounding"]
    assert check("P1/table-1-averages").numbers["average of the accuracies, LoRA"] == pytest.approx(81.22)


def test_rounding_is_forgiven():
    assert beyond_rounding((1.0, 1.01, 1.01)) == 0.0
    assert beyond_rounding((1.0, 1.0, 1.03)) == pytest.approx(0.02)
