"""A quiz keeps what the prompt alone answers, and says what a compressed one lost."""

import json
from dataclasses import asdict

from attangent.compression.asking.answers import Way
from attangent.compression.asking.questions import Question
from attangent.compression.asking.quiz import Quiz, quiz_answers

QUESTIONS = [Question("who?", "Quill"), Question("where?", "Rome"), Question("when?", "1931")]


def said(*answers):
    return lambda texts: list(answers)


def test_only_what_the_prompt_alone_answers_is_asked():
    quiz = Quiz.made(QUESTIONS, said("It is QUILL.", "in Rome", "never"), said("no", "Rome!"))
    assert [question.text for question in quiz.questions] == ["who?"]
    assert quiz.full == ("It is QUILL.",)


def test_a_quiz_can_be_empty():
    assert len(Quiz.made([], said(), said())) == 0
    assert len(Quiz.made(QUESTIONS, said("", "", ""), said("", "", ""))) == 0


def test_lost_answers_are_found():
    quiz = Quiz.made(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", ""))
    assert [answer.lost for answer in quiz.answers(["quill", "Paris", "in 1931"])] == [False, True, False]


def test_a_quiz_can_be_written_and_joined():
    quiz = Quiz.made(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", ""))
    assert Quiz.read(json.loads(json.dumps(asdict(quiz)))) == quiz
    both = Quiz.joined([quiz, Quiz((), (), ()), quiz])
    assert len(both) == 6
    assert both.full == quiz.full + quiz.full


def test_answers_that_were_begun_are_asked_for_by_themselves(monkeypatch):
    asked = []

    def answers(model, tokenizer, rows, way, tokens, progress):
        asked.append((list(rows), tokens))
        return [f"to {row}" for row in rows]

    monkeypatch.setattr("attangent.compression.asking.quiz.answers_by", answers)
    questions = [
        Question("who?", "Quill"),
        Question("tell", "Rome", "They live in"),
        Question("when?", "1931"),
    ]
    found = quiz_answers(None, None, questions, lambda question: question.shown, Way.none())
    assert asked == [(["who?", "when?"], 16), (["tell They live in ..."], 8)]
    assert found == ["to who?", "to tell They live in ...", "to when?"]
