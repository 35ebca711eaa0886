"""A quiz: questions that only the prompt answers, and what a compressed one lost."""

import json
from dataclasses import asdict, replace
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
    answers_by,
    ask,
    continuations,
    facts_kept,
    holds_words,
    is_finished,
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

    class Words(Letters):
        """Every token is a word."""

        def decode(self, ids, **options):
            return " ".join(f"w{int(number)}" for number in ids)

    words = Words()
    complete = continuations(job.model, words, rows, PromptForm.none(), 6)
    expected = [complete[0].split()[1], "never said"]
    cut = answers_by(job.model, words, rows, PromptForm.none(), 6, expected=expected)
    assert cut[1] == complete[1]
    assert cut[0].split() == complete[0].split()[: len(cut[0].split())]
    assert len(cut[0].split()) in (2, 3)  # one more word shows that the expected one is complete


def test_an_answer_ends_after_its_first_sentence():
    assert is_finished("It costs 3.50 euros. The")
    assert is_finished("a line of text\nmore")
    assert not is_finished("It costs 3.50 euros.")
    assert not is_finished("Yes. It")
    assert not is_finished("It costs 3.")


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


QUESTIONS = [Question("who?", "Quill", 0), Question("where?", "Rome", 1), Question("when?", "1931", 2)]


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
    quiz = replace(Quiz.of(QUESTIONS, said("Quill", "Rome", "1931"), said("", "", "")), candidates=5)
    notes = json.loads(json.dumps(asdict(quiz)))
    assert Quiz.read(notes) == quiz
    del notes["candidates"]  # written by an earlier version
    assert Quiz.read(notes) == replace(quiz, candidates=0)
    both = Quiz.joined([quiz, Quiz((), (), ()), quiz])
    assert len(both) == 6
    assert both.facts == 6
    assert both.candidates == 10
    assert both.full == quiz.full + quiz.full


def test_a_fact_is_kept_if_all_of_its_questions_are():
    answers = [
        Answer("?", "yes", word, "no", "yes", fact)
        for word, fact in (("yes", 0), ("no", 0), ("no", 3), ("yes", 4), ("yes", 4))
    ]
    assert facts_kept(answers) == {0: False, 3: False, 4: True}


def test_answers_are_those_of_the_continuations():
    model, tokenizer = tiny_llama(), Letters()
    cache = prefill(model, torch.arange(20))
    questions = [Question("who?", "Quill", 0), Question("where?", "Rome", 1)]
    for form in (PromptForm.full(cache), PromptForm.none()):
        replies = ask(model, tokenizer, questions, partial(tokens_of, tokenizer), form)
        assert [reply.right for reply in replies] == [
            holds_words(reply.text, question.expected)
            for question, reply in zip(questions, replies, strict=True)
        ]
