"""The tests of `papers/p1/decoder/last_layers.py`."""

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p1_prefix.claims.decoder.last_layers import classifier_trial, encoded, made_up_decoder

WORDS = 20


def rows(count, length=6, labels=2):
    draw = torch.Generator().manual_seed(count)
    words = torch.randint(WORDS, (count, length), generator=draw)
    return [encoded(row, i % labels) for i, row in enumerate(words)]


@pytest.mark.parametrize("top", [1, 2])
def test_states_below_and_layers_above_give_what_the_whole_model_gives(top):
    model = made_up_decoder(WORDS, 16, seed=3)
    parts = [rows(5), rows(3), rows(4)]
    trial = classifier_trial(model, top, parts, seed=3)
    batch = trial.collate(trial.train)
    last = model.model(torch.stack([row["input_ids"] for row in parts[0]])).last_hidden_state[:, -1]
    with torch.no_grad():
        expected = trial.model.score(last)
        torch.testing.assert_close(trial.model(**batch).logits, expected, rtol=1e-5, atol=1e-6)


def test_the_head_has_as_many_labels_as_the_rows_and_follows_the_seed():
    model = made_up_decoder(WORDS, 16, seed=0)
    first, again, other = (
        classifier_trial(model, 1, [rows(6, labels=3)] * 3, seed).model.score.weight for seed in (1, 1, 2)
    )
    assert first.shape == (3, 16)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_rows_of_several_lengths_and_too_many_layers_are_refused():
    model = made_up_decoder(WORDS, 16, seed=0)
    with pytest.raises(AttangentError, match=r"rows have \[5, 6\] tokens"):
        classifier_trial(model, 1, [rows(2), rows(2, length=5), rows(2)], 0)
    with pytest.raises(AttangentError, match="top is 3, expected 1 to 2 of 3 layers"):
        classifier_trial(model, 3, [rows(2)] * 3, 0)
