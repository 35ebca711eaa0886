"""The GPT-2 on facts: its vocabulary, its split loss and its accuracies."""

import pytest
import torch
from torch.nn import functional

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.corpora import FactCorpus, FactExample, TypedFacts
from attangent.papers.p3_two_stage.facts.fact_model import FactModel, Vocabulary, split_loss
from tests.papers.p3_two_stage.facts.examples import CORPUS


def test_words_of_another_corpus_are_refused():
    vocabulary = Vocabulary.of(CORPUS)
    other = TypedFacts(seed=5).corpus()
    with pytest.raises(AttangentError, match="not in the vocabulary"):
        vocabulary.encode(other.training[:1])
    with pytest.raises(AttangentError, match="no examples"):
        vocabulary.encode([])


def test_answers_of_several_words_are_one_token():
    corpus = FactCorpus(
        (FactExample("who sang ?", "Ella Fitzgerald", "person"),), (), {"person": ("Ella Fitzgerald",)}, "x"
    )
    vocabulary = Vocabulary.of(corpus)
    assert vocabulary.words == ("<pad>", "?", "Ella Fitzgerald", "sang", "who")
    assert vocabulary.encode(corpus.training).answer.tolist() == [2]


@pytest.fixture(scope="module")
def model():
    vocabulary = Vocabulary.of(CORPUS)
    return FactModel.initial(vocabulary, 8, width=16, layers=2, heads=2, seed=0)


def test_the_split_is_exact():
    random = torch.Generator().manual_seed(0)
    logits = 5 * torch.randn(200, 30, generator=random)
    is_type = torch.rand(200, 30, generator=random) < 0.3
    answer = torch.randint(30, (200,), generator=random)
    is_type[torch.arange(200), answer] = True
    logs = logits.double().log_softmax(-1)
    of_type, of_answer = split_loss(logs, answer, is_type)
    torch.testing.assert_close(of_type + of_answer, functional.nll_loss(logs, answer, reduction="none"))
    p = logs.exp()
    torch.testing.assert_close(of_type, -(p * is_type).sum(-1).log())
    inside = (p * is_type) / (p * is_type).sum(-1, keepdim=True)
    torch.testing.assert_close(of_answer, -inside[torch.arange(200), answer].log())


def test_readings_agree_with_prompts_taken_one_by_one(model):
    examples = CORPUS.training[:20]
    reading = model.read(model.vocabulary.encode(examples), chunk=7)
    right_type = right = loss = 0.0
    for example in examples:
        one = model.vocabulary.encode([example])
        logits = model.gpt2(one.ids).logits[0, -1]
        said = model.vocabulary.words[logits.argmax()]
        right_type += said in CORPUS.types[example.type]
        right += said == example.answer
        loss -= logits.log_softmax(-1)[one.answer[0]].item()
    assert reading.syntax == pytest.approx(right_type / 20)
    assert reading.semantics == pytest.approx(right / 20)
    assert reading.loss == pytest.approx(loss / 20, rel=1e-5)


def test_padding_does_not_reach_the_answer(model):
    short, long = sorted(CORPUS.training, key=lambda e: len(e.prompt.split()))[:: len(CORPUS.training) - 1]
    alone = model.log_probabilities(model.vocabulary.encode([short]))
    beside = model.log_probabilities(model.vocabulary.encode([short, long]))
    torch.testing.assert_close(alone[0], beside[0], rtol=0, atol=1e-5)


def test_the_loss_that_is_trained_is_the_sum_of_its_parts(model):
    batch = model.vocabulary.encode(CORPUS.training)
    assert model.loss(batch).item() == pytest.approx(model.read(batch).loss, rel=1e-5)
