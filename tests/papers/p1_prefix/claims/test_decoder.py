import pytest
import torch

from attangent import AttangentError
from attangent.audit.registry import get
from attangent.papers.p1_prefix.claims import adapters_tables, decoder
from attangent.papers.p1_prefix.claims.decoder import classifier_trial, encoded, made_up_decoder
from attangent.papers.p1_prefix.claims.small_tasks import AUTHORS, EQUATION_7, OURS
from attangent.tuning.data.text import TextExample, TextTask

VOCABULARY = 20


def rows(count, length=6, labels=2):
    draw = torch.Generator().manual_seed(count)
    words = torch.randint(VOCABULARY, (count, length), generator=draw)
    return [encoded(row, i % labels) for i, row in enumerate(words)]


@pytest.mark.parametrize("top", [1, 2])
def test_states_below_and_layers_above_give_what_the_whole_model_gives(top):
    model = made_up_decoder(VOCABULARY, 16, seed=3)
    parts = [rows(5), rows(4)]
    trial = classifier_trial(model, top, parts, seed=3)
    batch = trial.collate(trial.train)
    last = model.model(torch.stack([row["input_ids"] for row in parts[0]])).last_hidden_state[:, -1]
    with torch.no_grad():
        expected = trial.model.score(last)
        torch.testing.assert_close(trial.model(**batch).logits, expected, rtol=1e-5, atol=1e-6)


def test_the_head_has_as_many_labels_as_the_rows_and_follows_the_seed():
    model = made_up_decoder(VOCABULARY, 16, seed=0)
    first, again, other = (
        classifier_trial(model, 1, [rows(6, labels=3)] * 2, seed).model.score.weight for seed in (1, 1, 2)
    )
    assert first.shape == (3, 16)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_rows_of_several_lengths_and_too_many_layers_are_refused():
    model = made_up_decoder(VOCABULARY, 16, seed=0)
    with pytest.raises(AttangentError, match=r"same number of tokens.*got \[5, 6\]"):
        classifier_trial(model, 1, [rows(2), rows(2, length=5)], 0)
    with pytest.raises(AttangentError, match="top must be between 1 and 2, for 3 layers"):
        classifier_trial(model, 3, [rows(2)] * 2, 0)


CLAIM = get("P1/table-1-decoder")
LABELS = ("LoRA", AUTHORS, EQUATION_7, OURS, "P-tuning v2")


@pytest.mark.parametrize(("lora", "kept"), [(0.7, None), (0.9, False)])
def test_a_rivals_clear_lead_is_shown_and_refutes_nothing(monkeypatch, lora, kept):
    accuracies = {**dict.fromkeys(LABELS, 0.7), "LoRA": lora}
    runs = {
        label: {"test": {"accuracy": value}, "parameters": 10.0, "train_loss": 1.0}
        for label, value in accuracies.items()
    }
    monkeypatch.setattr(adapters_tables, "runs_of", lambda *given: runs)
    found = CLAIM.check(CLAIM.quick, 0)
    assert next(line for line in found.conclusions if "less that of LoRA" in line.name).kept is kept
    assert not found.verdict.failed


def test_the_whole_way_on_a_made_up_decoder():
    found = CLAIM.check(CLAIM.quick | {"train": 16, "test": 40, "epochs": 1}, 0)
    assert 0 <= found.numbers["accuracy of LoRA"] <= 1
    assert "ChatGLM3-6B" in found.smaller


def test_without_data_it_is_open(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    assert CLAIM.check(CLAIM.full, 0).verdict == "open"


def test_the_last_tokens_are_kept_and_short_examples_left_out():
    def tokenizer(text):
        return {"input_ids": [ord(sign) for sign in text]}

    task = TextTask((TextExample(("abc", "def"), 1), TextExample(("a",), 0)), ("no", "yes"))
    (row,) = decoder._last_tokens(task, tokenizer, 4)
    assert "".join(map(chr, row["input_ids"])) == "\ndef"
    assert row["labels"] == 1
