"""One prompt in one model: sizes found by a tolerance, and texts of the user's own."""

import pytest
import torch

from attangent.compression.compressor import Compressor
from attangent.compression.fidelity import measure_fidelity
from attangent.compression.methods.scoring import best_tokens
from attangent.compression.quiz.questions import Question
from attangent.compression.quiz.quiz import Said
from tests.compression.cases import ChatLetters, Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture
def model():
    return tiny_llama()


def test_a_tolerance_finds_the_first_size_that_keeps_it(model):
    job = Compressor(model, Letters(), TEXT * 2)
    found = job.fit_to(0.9, "select")
    ratios = {}
    size = 16
    while size <= found.size:
        part = job.fit(size, "select")
        ratios[size] = measure_fidelity(model, job.cache, part.states, job.held_out).ratio
        size *= 2
    assert ratios[found.size] <= 0.9
    assert all(ratio > 0.9 for size, ratio in ratios.items() if size < found.size)
    assert job.fit_to(1e-9).exact


def test_own_calibration_text_is_used(model):
    job = Compressor(model, Letters(), TEXT, calibration=["what is it?", "x" * 100])
    assert job.text.tokens == 111
    assert job.text.ids.shape[1] == 64
    said = sum(len(turn.ids) for turn in job.scored_turns)
    assert job.lessons.text.valid.sum() == said + 111
    assert job.fit(10).size == 10


def test_questions_of_the_users_count_where_their_answers_are_known(model, tmp_path, monkeypatch):
    def say(self, way, done, questions):
        text = "x" if way.handler else "y"
        return [Said(text, question.expected == text) for question in questions]

    monkeypatch.setattr(Compressor, "_say", say)
    asked = [("what?", "x"), ("who?", "z"), ("and?", None)]
    jobs = [
        Compressor(model, Letters(), TEXT, folder=tmp_path, asked=some) for some in (asked, (), asked[:1])
    ]
    assert [len(job.quiz) for job in jobs] == [1, 0, 1]
    assert jobs[0].quiz.questions == (Question("what?", "x"),)
    found = jobs[0].fit(10)
    (answer,) = jobs[0].quiz_answers(found)
    assert not answer.lost


def test_unfitted_tokens_are_those_of_the_prompt_that_the_fit_starts_from(model):
    job = Compressor(model, Letters(), TEXT)
    found, kept = job.unfitted(10), best_tokens(job.scores, 10)
    for name, (keys, values) in job.cache.layers.items():
        heads = list(found.states[name].by_head())
        for head, (own_keys, own_values, masses) in enumerate(heads):
            assert torch.equal(own_keys, keys[head][kept[name][head]])
            torch.testing.assert_close(own_values, values[head][kept[name][head]])
            assert (masses == 1).all()
    assert job.unfitted(10, "anchors") is None
    assert job.unfitted(10_000) is None


def test_scores_come_from_sentences_alone_where_these_make_up_the_prompt(model):
    chat = [
        {"role": "system", "content": "One two three four. Five six seven eight. Nine ten eleven twelve."}
    ]
    job = Compressor(model, ChatLetters(), chat)
    assert job.scored_turns == job.recitations
    torn = Compressor(model, ChatLetters(), [{"role": "system", "content": "One two. " + "x" * 300}])
    assert torn.scored_turns == [*torn.repetitions, *torn.recitations]
    plain = Compressor(model, Letters(), TEXT)
    assert plain.scored_turns == plain.repetitions
