"""Learners of others as predictors."""

from types import SimpleNamespace

import pytest
import torch
from sklearn.linear_model import Ridge
from transformers import LlamaConfig, LlamaForCausalLM

from attangent import AttangentError
from attangent.icl import Dictionary, compare_to_ridge, sklearn_predictor, text_predictor
from attangent.icl.learners import continuations

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

    def __call__(self, input_ids, use_cache):
        return SimpleNamespace(past_key_values=None)

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


def test_what_the_queries_share_is_read_once_and_changes_nothing():
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=32, vocab_size=128
    )
    model = LlamaForCausalLM(config).eval()
    texts = ["x: 1.0\ny: 2.0\n\nx: 3.0\ny:", "x: 1.0\ny: 2.0\n\nx: 5.25\ny:", "x: 1.0\ny: 2.0\n\nx: 3.0\ny:"]
    found = continuations(model, Tokenizer(), texts, 6)
    for text, said in zip(texts, found, strict=True):
        ids = Tokenizer()(text, "pt")["input_ids"]
        alone = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=6,
            do_sample=False,
            pad_token_id=0,
        )
        assert said == "".join(map(chr, alone[0, ids.shape[1] :].tolist()))
    assert found[0] == found[2]
    assert continuations(model, Tokenizer(), ["a"], 2)
