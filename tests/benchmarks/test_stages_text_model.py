"""Plain text by kinds of words: the split of the loss, what counts as repeated, and a short training."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from benchmarks.suites.stages.text_model import KINDS, Prose, groups, kind_of, train

TEXTS = ["The cat sat on the mat in 1999 , and the cat saw Paris ."] * 6 + ["The dog sat on the dog ."] * 2


def test_kinds():
    words = {"the": "function", "The": "function", "1999": "number", ".": "punctuation", "cat": "word"}
    assert {word: kind_of(word) for word in words} == words
    assert kind_of("Paris") == "name"


def test_windows_are_of_single_texts_and_rare_words_are_one():
    prose = Prose.of(TEXTS, words=8, window=5, held_out=2)
    assert prose.training.shape == (6 * 3, 5)
    assert prose.held_out.shape == (2, 5)
    assert prose.training.max() < 8 == len(prose.kinds)
    assert prose.kinds[0] == -1
    assert (prose.held_out == 0).any()


def test_the_parts_of_the_loss():
    """Words 1 and 2 are function words, 3 and 4 names; word 3 comes again, in the second window only."""
    kinds = torch.tensor([-1, 1, 1, 3, 3])
    windows = torch.tensor([[1, 3, 2, 4], [3, 2, 1, 3]])
    logits = torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(0))
    found = groups(logits, windows, kinds)
    p = logits.double().softmax(-1)
    of_name, of_function = p[..., 3:].sum(-1), p[..., 1:3].sum(-1)
    assert found["content words, repeated"] == pytest.approx(-(p[1, 2, 3] / of_name[1, 2]).log().item())
    new = [-(p[0, 0, 3] / of_name[0, 0]).log(), -(p[0, 2, 4] / of_name[0, 2]).log()]
    assert found["content words, new"] == pytest.approx(sum(new).item() / 2)
    whole = cross_entropy(logits.double().flatten(0, 1), windows[:, 1:].flatten(), reduction="sum")
    function = [
        p[0, 1, 2] / of_function[0, 1],
        p[1, 0, 2] / of_function[1, 0],
        p[1, 1, 1] / of_function[1, 1],
    ]
    assert found["function words"] == pytest.approx(-sum(x.log() for x in function).item() / 3)
    parts = 6 * found["kind"] + 3 * found["function words"] + 2 * found["content words, new"]
    assert parts + found["content words, repeated"] == pytest.approx(whole.item())
    assert KINDS[3] == "name"


def test_training_reads_and_learns():
    prose, read = Prose.of(TEXTS[:1] * 8, words=14, window=7, held_out=2), []
    sizes = {"width": 16, "layers": 1, "heads": 2, "batch": 4, "steps": 60, "every": 20, "read": 4}
    train(prose, sizes, 1e-2, 0, lambda step, losses: read.append((step, losses)))
    assert [step for step, _ in read] == [0, 20, 40, 60]
    assert read[-1][1]["kind"] < 0.5 * read[0][1]["kind"]
