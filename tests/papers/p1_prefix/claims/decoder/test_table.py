"""The tests of `papers/p1/decoder/table.py`."""

import pytest

from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims.decoder import table
from attangent.papers.p1_prefix.claims.small_tasks import AUTHORS, EQUATION_7, OURS
from attangent.tuning.data.text import Example, TextTask

CLAIM = get("P1/table-1-decoder")
LABELS = ("LoRA", AUTHORS, EQUATION_7, OURS, "P-tuning v2")


@pytest.mark.parametrize(("lora", "verdict"), [(0.7, "measured"), (0.9, "not reproduced")])
def test_a_rivals_clear_lead_is_not_reproduced_and_refutes_nothing(monkeypatch, lora, verdict):
    accuracies = {**dict.fromkeys(LABELS, 0.7), "LoRA": lora}
    runs = {
        label: {"test": {"accuracy": value}, "parameters": 10.0, "train_loss": 1.0}
        for label, value in accuracies.items()
    }
    monkeypatch.setattr(table, "best_runs", lambda *given: runs)
    assert CLAIM.check(CLAIM.quick, 0).verdict == verdict


def test_the_whole_way_on_a_made_up_decoder():
    found = CLAIM.check(CLAIM.quick | {"train": 16, "test": 40, "epochs": 1}, 0)
    assert 0 <= found.numbers["accuracy of LoRA"] <= 1
    assert len(found.differs) == 2


def test_without_data_it_is_open(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    assert CLAIM.check(CLAIM.full, 0).verdict == "open"


def test_the_last_tokens_are_kept_and_short_examples_left_out():
    def tokenizer(text):
        return {"input_ids": [ord(sign) for sign in text]}

    task = TextTask((Example(("abc", "def"), 1), Example(("a",), 0)), ("no", "yes"))
    (row,) = table._last_tokens(task, tokenizer, 4)
    assert "".join(map(chr, row["input_ids"])) == "\ndef"
    assert row["labels"] == 1
