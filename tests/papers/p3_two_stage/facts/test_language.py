"""The GPT-2 on facts: its split loss, its accuracies, and how they move in training."""

from dataclasses import asdict, replace

import pytest
import torch

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.language import LanguageTraining, train_on_facts
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
