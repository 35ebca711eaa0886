"""The steps of a compression: texts, scores, choice, fit and questions."""

import pytest
import torch

from attangent.compression.capture import prefill
from attangent.compression.methods.recall import RecallMethod
from attangent.compression.pipeline import CompressionRun, fit_states
from attangent.compression.questions import Question
from attangent.compression.quiz import Reply
from attangent.compression.text import Calibration, PackedText
from tests.compression.cases import ChatLetters, Letters, run_of, tiny_llama

CHOSEN = {f"model.layers.{i}.self_attn": [torch.arange(12), torch.arange(12)] for i in range(3)}
TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture
def model():
    return tiny_llama()


def test_own_calibration_text_is_used(model):
    job = run_of(model, Letters(), TEXT, calibration=["what is it?", "x" * 100])
    assert [len(text) for text in job.users_text] == [11, 64, 36]
    assert len(job.calibration) == len(job.scored_turns) + 3
    said = sum(len(turn.ids) for turn in job.scored_turns)
    assert sum(row.text.ids.numel() for row in job.lessons) == said + 111
    assert job.fit(10).size == 10


def test_questions_of_the_users_count_where_their_answers_are_known(model, tmp_path, monkeypatch):
    def ask(self, questions, form, progress=None):
        text = "x" if form.handler else "y"
        return [Reply(text, question.expected == text) for question in questions]

    monkeypatch.setattr(CompressionRun, "_ask", ask)
    asked = [("what?", "x"), ("who?", "z"), ("and?", None)]
    jobs = [
        run_of(model, Letters(), TEXT, folder=tmp_path, questions=some) for some in (asked, (), asked[:1])
    ]
    assert [len(job.quiz) for job in jobs] == [1, 0, 1]
    assert jobs[0].quiz.questions == (Question("what?", "x", 0, "--ask"),)
    found = jobs[0].fit(10)
    (answer,) = jobs[0].answers(found)
    assert not answer.lost


def test_a_fact_has_one_question_the_first_that_the_prompt_answers(model, monkeypatch):
    asked = []

    def ask(self, questions, form, progress=None):
        asked.append([question.text for question in questions])
        right = {"one b?", "two a?", "two b?", "three a?"} if form.handler else {"three a?"}
        return [Reply("", question.text in right) for question in questions]

    monkeypatch.setattr(CompressionRun, "_ask", ask)
    forms = [
        Question(f"{fact} {form}?", "x", n) for n, fact in enumerate(("one", "two", "three")) for form in "ab"
    ]
    quiz = run_of(model, Letters(), TEXT)._quiz_of(forms)
    assert [question.text for question in quiz.questions] == ["one b?", "two a?"]
    assert quiz.candidates == 3
    assert asked == [["one a?", "two a?", "three a?"], ["one b?"], ["one b?", "two a?", "three a?"]]


def test_scores_come_from_passages_alone_if_these_make_up_the_prompt(model):
    chat = [
        {"role": "system", "content": "One two three four. Five six seven eight. Nine ten eleven twelve."}
    ]
    job = run_of(model, ChatLetters(), chat)
    assert job.scored_turns == job.recitations
    torn = run_of(model, ChatLetters(), [{"role": "system", "content": "One two. " + "x" * 300}])
    assert torn.scored_turns == [*torn.repetitions, *torn.recitations]


def test_passages_of_a_plain_text_are_asked_for_in_lines(model):
    text = "The keeper of the old mill is Otto Lind. " * 2 + "His dog is a white terrier from the coast."
    job = run_of(model, Letters(), text)
    said = [["".join(map(chr, part.tolist())) for part in turn] for turn in job.recitations]
    assert said[0][0] == "\n\nQuestion: The keeper of the old?\nAnswer:"
    assert said[0][1] == " The keeper of the old mill is Otto Lind."
    assert len(said) == 2


def test_padding_changes_nothing():
    model = tiny_llama()
    cache = prefill(model, torch.arange(60) % 61)
    rows = [torch.arange(9), torch.arange(20)]
    padded = Calibration.of(rows)
    other = Calibration(padded.ids.masked_fill(~padded.valid, 33), padded.valid)
    for a, b in zip(
        fit_states(model, cache, padded, RecallMethod(), CHOSEN).values(),
        fit_states(model, cache, other, RecallMethod(), CHOSEN).values(),
        strict=True,
    ):
        torch.testing.assert_close(a.Z, b.Z)


def test_sequences_in_one_row_are_read_as_if_each_had_its_own(monkeypatch):
    # In float64, because the fit of a dozen tokens to so short a text magnifies rounding a thousand times.
    model = tiny_llama().double()
    cache = prefill(model, torch.arange(60) % 61)
    text = Calibration.of([torch.arange(20), torch.arange(5, 14), torch.arange(30, 37), torch.arange(3)])
    assert len(text.packed().ids) == 2
    packed = fit_states(model, cache, text, RecallMethod(), CHOSEN)
    apart = PackedText.of([[row] for row in sorted(text.sequences(), key=len, reverse=True)])
    monkeypatch.setattr(Calibration, "packed", lambda self: apart)
    again = fit_states(model, cache, text, RecallMethod(), CHOSEN)
    for a, b in zip(packed.values(), again.values(), strict=True):
        torch.testing.assert_close(a.Z, b.Z, atol=1e-3, rtol=1e-2)
