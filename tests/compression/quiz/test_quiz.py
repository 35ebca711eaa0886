"""A quiz keeps what the prompt alone answers, and says what a compressed one lost."""

import json
from dataclasses import asdict
from functools import partial

import pytest
import torch

from attangent.compression.capture import prefill
from attangent.compression.prompt import tokens_of
from attangent.compression.quiz.answers import Way
from attangent.compression.quiz.questions import Question
from attangent.compression.quiz.quiz import Quiz, Said, begun_turn, quiz_answers
from tests.compression.cases import Letters, tiny_llama

QUESTIONS = [Question("who?", "Quill"), Question("where?", "Rome"), Question("when?", "1931")]


def said(*answers):
    """What is said to the first of the questions; an answer is right that has the expected word."""

    def say(questions):
        pairs = zip(questions, answers, strict=False)
        return [Said(text, one.expected.casefold() in text.casefold()) for one, text in pairs]

    return say


def test_only_what_the_prompt_alone_answers_is_asked():
    quiz = Quiz.made(QUESTIONS, said("It is QUILL.", "in Rome", "never"), said("no", "Rome!"))
    assert [question.text for question in quiz.questions] == ["who?"]
    assert quiz.full == ("It is QUILL.",)


def test_a_quiz_can_be_empty():
    assert len(Quiz.made([], said(), said())) == 0
    assert len(Quiz.made(QUESTIONS, said("", "", ""), said("", "", ""))) == 0


def test_lost_answers_are_found():
    quiz = Quiz.made(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", ""))
    assert [answer.lost for answer in quiz.answers(said("quill", "Paris", "in 1931")(QUESTIONS))] == [
        False,
        True,
        False,
    ]


def test_a_quiz_can_be_written_and_joined():
    quiz = Quiz.made(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", ""))
    assert Quiz.read(json.loads(json.dumps(asdict(quiz)))) == quiz
    both = Quiz.joined([quiz, Quiz((), (), ()), quiz])
    assert len(both) == 6
    assert both.full == quiz.full + quiz.full


BEGUN = Question("tell", "Rome", "They live in", " old Rome")


def test_answers_that_were_begun_are_kept_where_they_stay_likely():
    quiz = Quiz.made([BEGUN] * 3, lambda q: [Said("", True, 0.8)] * 3, lambda q: [Said("", False)] * 3)
    found = quiz.answers([Said("", True, chance) for chance in (0.8, 0.49, 0.47)])
    assert [answer.lost for answer in found] == [False, False, True]
    assert found[0].question == "tell They live in ..."
    assert Quiz.read(json.loads(json.dumps(asdict(quiz)))) == quiz


def test_answers_that_were_begun_are_looked_up_not_written():
    model, tokenizer = tiny_llama(), Letters()
    questions = [Question("who?", "Quill"), BEGUN]
    cache = prefill(model, torch.arange(20))
    for way in (Way.full(cache), Way.none()):
        found = quiz_answers(model, tokenizer, questions, partial(tokens_of, tokenizer), way)
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
