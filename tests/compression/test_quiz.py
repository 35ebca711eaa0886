"""A quiz: questions that only the prompt answers, and what a compressed one lost."""

import json
from dataclasses import asdict
from functools import partial

import pytest
import torch

from attangent.compression.capture import prefill
from attangent.compression.prompt import tokens_of
from attangent.compression.prompt_cache import PromptForm
from attangent.compression.questions import Question
from attangent.compression.quiz import (
    Answer,
    Quiz,
    Reply,
    answer_all,
    ask,
    begun_turn,
    continuations,
    holds_words,
)
from tests.compression.cases import Letters, run_of, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture(scope="module")
def job():
    return run_of(tiny_llama(layers=2), Letters(), TEXT)


def test_answers_of_padded_questions_are_those_of_each_alone(job):
    rows = [torch.arange(5, 9), torch.arange(40, 51), torch.arange(60, 61)]
    for form in (PromptForm.full(job.cache), PromptForm.none()):
        together = continuations(job.model, job.tokenizer, rows, form, 6)
        alone = [continuations(job.model, job.tokenizer, [row], form, 6)[0] for row in rows]
        assert together == alone


def test_answers_with_the_full_prompt_are_those_of_generate(job):
    ids = torch.cat([job.ids, torch.arange(5, 9)])[None]
    said = job.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    full = PromptForm.full(job.cache)
    (found,) = continuations(job.model, job.tokenizer, [torch.arange(5, 9)], full, 6)
    assert found == job.tokenizer.decode(said[0, ids.shape[1] :].tolist()).strip()


def test_an_answer_ends_where_the_text_ends(job):
    class Ending(Letters):
        eos_token_id: int | None = None

    tokenizer = Ending()
    (whole,) = continuations(job.model, tokenizer, [torch.arange(5, 9)], PromptForm.none(), 4)
    ids = continuations(job.model, Letters(), [torch.arange(5, 9)], PromptForm.none(), 4)
    assert [whole] == ids
    tokenizer.eos_token_id = job.model(torch.arange(5, 9)[None]).logits[0, -1].argmax().item()
    assert continuations(job.model, tokenizer, [torch.arange(5, 9)], PromptForm.none(), 4) == [""]


def test_an_answer_that_has_what_is_expected_is_not_written_further(job):
    rows = [torch.arange(5, 9), torch.arange(40, 44)]
    whole = continuations(job.model, job.tokenizer, rows, PromptForm.none(), 6)
    words = [whole[0][:2].upper(), "never said"]
    cut = continuations(job.model, job.tokenizer, rows, PromptForm.none(), 6, words)
    assert cut[1] == whole[1]
    assert whole[0].startswith(cut[0])
    assert len(cut[0]) < len(whole[0])
    assert holds_words(cut[0], words[0])


def test_questions_are_answered_three_ways(job):
    found = job.fit(10)
    answers = answer_all(
        job.model,
        job.tokenizer,
        [("who?", None), ("where is it?", "x")],
        lambda question: job.reader.question(job.tokenizer, question),
        job.cache,
        found.states,
    )
    assert [answer.question for answer in answers] == ["who?", "where is it?"]
    assert answers[1].expected == "x"


def test_expected_words_decide_where_they_are_given():
    answer = Answer("Who?", "It is QUILL.", "It is quill, I think.", "No idea.", expected="Quill")
    assert answer.holds(answer.full)
    assert not answer.lost
    assert not answer.holds(answer.none)


QUESTIONS = [Question("who?", "Quill"), Question("where?", "Rome"), Question("when?", "1931")]


def said(*answers):
    """Replies to the questions; an answer is right that has the expected word."""
    pairs = zip(QUESTIONS, answers, strict=False)
    return [Reply(text, one.expected.casefold() in text.casefold()) for one, text in pairs]


def test_only_what_the_prompt_alone_answers_is_asked():
    quiz = Quiz.of(QUESTIONS, said("It is QUILL.", "in Rome", "never"), said("no", "Rome!", ""))
    assert [question.text for question in quiz.questions] == ["who?"]
    assert quiz.full == ("It is QUILL.",)


def test_a_quiz_can_be_empty():
    assert len(Quiz.of([], said(), said())) == 0
    assert len(Quiz.of(QUESTIONS, said("", "", ""), said("", "", ""))) == 0


def test_lost_answers_are_found():
    quiz = Quiz.of(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", ""))
    assert [answer.lost for answer in quiz.answers(said("quill", "Paris", "in 1931"))] == [
        False,
        True,
        False,
    ]


def test_a_quiz_can_be_written_and_joined():
    quiz = Quiz.of(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", ""))
    assert Quiz.read(json.loads(json.dumps(asdict(quiz)))) == quiz
    both = Quiz.joined([quiz, Quiz((), (), ()), quiz])
    assert len(both) == 6
    assert both.full == quiz.full + quiz.full


BEGUN = Question("tell", "Rome", "They live in", " old Rome")


def test_answers_that_were_begun_are_kept_where_they_stay_likely():
    quiz = Quiz.of([BEGUN] * 3, [Reply("", True, 0.8)] * 3, [Reply("", False)] * 3)
    found = quiz.answers([Reply("", True, chance) for chance in (0.8, 0.49, 0.47)])
    assert [answer.lost for answer in found] == [False, False, True]
    assert found[0].question == "tell They live in ..."
    assert Quiz.read(json.loads(json.dumps(asdict(quiz)))) == quiz


def test_answers_that_were_begun_are_looked_up_not_written():
    model, tokenizer = tiny_llama(), Letters()
    questions = [Question("who?", "Quill"), BEGUN]
    cache = prefill(model, torch.arange(20))
    for way in (PromptForm.full(cache), PromptForm.none()):
        found = ask(model, tokenizer, questions, partial(tokens_of, tokenizer), way)
        prompt = [torch.arange(20)] if way.handler else []
        ids = torch.cat([*prompt, tokens_of(tokenizer, "tellThey live in old Rome")])
        chances = model(ids[None]).logits[0].log_softmax(dim=-1)[-10:-1]
        expected = chances.gather(1, ids[-9:, None]).sum().exp().item()
        assert found[1].chance == pytest.approx(expected, rel=1e-3)
        assert not found[1].right
        assert (found[0].chance, len(found[0].text)) == (0.0, len(found[0].text.strip()))


def test_words_whose_tokens_reach_over_the_beginning_are_looked_up_from_where_they_differ():
    class Pairs(Letters):
        def __call__(self, text, add_special_tokens=True):
            return {"input_ids": [hash(text[i : i + 2]) % 97 for i in range(0, len(text), 2)]}

    asked, rest = begun_turn(Pairs(), Question("", "c", "ab ", "cd"), torch.tensor([5]))
    ids = Pairs()("ab cd")["input_ids"]
    assert asked.tolist() == [5, ids[0]]
    assert rest.tolist() == ids[1:]
