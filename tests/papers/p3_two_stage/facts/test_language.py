"""The GPT-2 on facts: its split loss, its accuracies, and how they move in training."""

from dataclasses import asdict, replace

import pytest
import torch
from torch.nn import functional

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.corpora import FactCorpus, FactExample, TypedFacts
from attangent.papers.p3_two_stage.facts.language import (
    FactModel,
    LanguageTraining,
    Vocabulary,
    split_loss,
    train_on_facts,
)
from tests.papers.p3_two_stage.facts.examples import CORPUS

SMALL = LanguageTraining(width=16, layers=1, heads=2, epochs=2, batch=16)


def test_the_seed_decides_and_nobody_elses_draws_are_touched():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    runs = [train_on_facts(CORPUS, SMALL) for _ in range(2)]
    assert torch.equal(torch.rand(3), expected)
    assert runs[0].readings.equals(runs[1].readings)


def test_readings_and_checkpoints():
    seen = []
    run = train_on_facts(CORPUS, SMALL, syntax_at=0.0, on_reading=lambda epoch, reading: seen.append(epoch))
    assert run.readings.epoch.tolist() == seen
    assert seen == pytest.approx([0, 0.4, 1, 1.4, 2])
    assert run.checkpoints["syntax"].epoch == 0
    assert run.readings["type_loss"].iloc[-1] < run.readings["type_loss"].iloc[0]
    batch = run.model.vocabulary.encode(CORPUS.training)
    for name in ("syntax", "end"):
        model = run.restore(name)
        assert asdict(model.read(batch)) == pytest.approx(asdict(run.checkpoints[name].reading))
    assert run.first("syntax", 2.0) == float("inf")
    with pytest.raises(AttangentError, match="no checkpoint 'middle'"):
        run.restore("middle")


def test_without_paraphrases_nothing_is_held_out():
    run = train_on_facts(replace(CORPUS, held_out=()), SMALL)
    assert not any(name.startswith("held-out") for name in run.readings)


@pytest.mark.parametrize(
    "sizes", [{"width": 10}, {"epochs": 0}, {"rate": -1.0}, {"warmup_steps": -1}], ids=str
)
def test_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(AttangentError):
        LanguageTraining(**sizes)


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
