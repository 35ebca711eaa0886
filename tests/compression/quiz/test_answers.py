"""Questions answered three ways, together as alone."""

import pytest
import torch

from attangent.compression.capture import whole_prompt
from attangent.compression.compressor import Compressor
from attangent.compression.quiz.answers import Answer, answer_all, continuations, holds_words
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture(scope="module")
def job():
    return Compressor(tiny_llama(layers=2), Letters(), TEXT, samples=4)


def test_answers_of_padded_questions_are_those_of_each_alone(job):
    rows = [torch.arange(5, 9), torch.arange(40, 51), torch.arange(60, 61)]
    for handler, offset in ((whole_prompt(job.cache), len(job.ids)), (None, 0)):
        together = continuations(job.model, job.tokenizer, rows, offset, handler, 6)
        alone = [continuations(job.model, job.tokenizer, [row], offset, handler, 6)[0] for row in rows]
        assert together == alone


def test_answers_with_the_full_prompt_are_those_of_generate(job):
    ids = torch.cat([job.ids, torch.arange(5, 9)])[None]
    said = job.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    (found,) = continuations(
        job.model, job.tokenizer, [torch.arange(5, 9)], len(job.ids), whole_prompt(job.cache), 6
    )
    assert found == job.tokenizer.decode(said[0, ids.shape[1] :].tolist()).strip()


def test_an_answer_ends_where_the_text_ends(job):
    class Ending(Letters):
        eos_token_id: int | None = None

    tokenizer = Ending()
    (whole,) = continuations(job.model, tokenizer, [torch.arange(5, 9)], 0, None, 4)
    ids = continuations(job.model, Letters(), [torch.arange(5, 9)], 0, None, 4)
    assert [whole] == ids
    tokenizer.eos_token_id = job.model(torch.arange(5, 9)[None]).logits[0, -1].argmax().item()
    assert continuations(job.model, tokenizer, [torch.arange(5, 9)], 0, None, 4) == [""]


def test_an_answer_that_has_what_is_expected_is_not_written_further(job):
    rows = [torch.arange(5, 9), torch.arange(40, 44)]
    whole = continuations(job.model, job.tokenizer, rows, 0, None, 6)
    words = [whole[0][:2].upper(), "never said"]
    cut = continuations(job.model, job.tokenizer, rows, 0, None, 6, words)
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
        tokens=3,
    )
    assert [answer.question for answer in answers] == ["who?", "where is it?"]
    assert answers[1].expected == "x"


def test_expected_words_decide_where_they_are_given():
    answer = Answer("Who?", "It is QUILL.", "It is quill, I think.", "No idea.", expected="Quill")
    assert answer.holds(answer.full)
    assert not answer.lost
    assert not answer.holds(answer.none)
