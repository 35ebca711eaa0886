"""Learners of others as predictors."""

import pytest
import torch
from sklearn.linear_model import Ridge

from attangent import AttangentError
from attangent.icl import Dictionary, compare_to_ridge, sklearn_predictor, text_predictor

DICTIONARY = Dictionary.random(
    K=14, d=6, m=6, N=8, tau=0.05, seed=2, representation=torch.eye(6, dtype=torch.float64)
)


def test_ridge_of_scikit_learn_is_ridge():
    predictor = sklearn_predictor(lambda: Ridge(alpha=DICTIONARY.ridge, fit_intercept=False))
    found = compare_to_ridge(predictor, DICTIONARY, prompts=20)
    assert found.nearest == "ridge"
    assert found.distance["ridge"] < 1e-20
    with pytest.raises(AttangentError, match="make is Ridge, expected a function"):
        sklearn_predictor(Ridge())


class Words(dict):
    def to(self, device):
        return self


class Tokenizer:
    """Texts as the numbers of their characters."""

    eos_token_id = 0

    def __call__(self, text, return_tensors):
        return Words(input_ids=torch.tensor([[ord(letter) for letter in text]]))

    def decode(self, ids, skip_special_tokens):
        return "".join(map(chr, ids.tolist()))


class Copier:
    """Writes the last label of the prompt again; in the second query nonsense."""

    device = "cpu"

    def __init__(self):
        self.texts = []

    def generate(self, input_ids, **options):
        text = "".join(map(chr, input_ids[0].tolist()))
        self.texts.append(text)
        last = text.split("y:")[-2].split("\n")[0]
        answer = last if len(self.texts) != 2 else " none"
        return torch.cat([input_ids, torch.tensor([[ord(letter) for letter in answer + "\n"]])], dim=1)


def test_a_language_model_reads_and_writes_numbers():
    model = Copier()
    predictor = text_predictor(model, Tokenizer(), digits=2, otherwise=9.0)
    tokens, labels = torch.tensor([[0.5, -1.0], [1.0, 0.0]]), torch.tensor([[0.25, -0.75]])
    answers = predictor(tokens, labels, torch.tensor([[2.0, 2.0], [3.0, 3.0], [4.0, 4.0]]))
    assert answers.tolist() == [[-0.75, 9.0, -0.75]]
    assert model.texts[0] == "x: 0.50, -1.00\ny: 0.25\n\nx: 1.00, 0.00\ny: -0.75\n\nx: 2.00, 2.00\ny:"
