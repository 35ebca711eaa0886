"""How much a compressed prompt kept: the numbers against slow ones, the answers, the warnings."""

import pytest
import torch

from attangent.compression.capture import whole_prompt
from attangent.compression.compressor import Compressor
from attangent.compression.fidelity import (
    Answer,
    Fidelity,
    Report,
    answer_all,
    continuations,
    measure_fidelity,
)
from attangent.compression.text import Calibration
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture(scope="module")
def job():
    return Compressor(tiny_llama(layers=2), Letters(), TEXT, samples=4)


def test_the_numbers_are_those_of_the_definition(job):
    found = job.fit(10, "select")
    rows = [torch.arange(3, 9), torch.arange(20, 30)]
    measured = measure_fidelity(job.model, job.cache, found.states, Calibration.of(rows))
    divergence, loss, agree = {"compressed": 0.0, "none": 0.0}, {"full": 0.0, "none": 0.0}, 0
    found.attach(job.model)
    try:
        with torch.no_grad():
            compressed = [job.model(row[None]).logits[0].log_softmax(-1) for row in rows]
    finally:
        from attangent import detach

        detach(job.model)
    for row, other in zip(rows, compressed, strict=True):
        with torch.no_grad():
            full = job.model(torch.cat([job.ids, row])[None]).logits[0, len(job.ids) :].log_softmax(-1)
            none = job.model(row[None]).logits[0].log_softmax(-1)
        for name, said in (("compressed", other), ("none", none)):
            divergence[name] += (full.exp() * (full - said)).sum().item() / 16
        for name, said in (("full", full), ("none", none)):
            loss[name] -= said[:-1].gather(1, row[1:, None]).sum().item() / 14
        agree += (full.argmax(-1) == none.argmax(-1)).sum().item()
    for name, value in divergence.items():
        assert measured.divergence[name] == pytest.approx(value, rel=1e-3, abs=1e-4)
    for name, value in loss.items():
        assert measured.loss[name] == pytest.approx(value, rel=1e-3)
    assert measured.agreement["none"] == pytest.approx(agree / 16)
    assert measured.ratio == pytest.approx(divergence["compressed"] / divergence["none"], rel=1e-3)


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


def fidelity(ratio):
    return Fidelity(
        {"compressed": ratio, "none": 1.0},
        dict.fromkeys(("full", "compressed", "none"), 1.0),
        {"compressed": 0.9, "none": 0.5},
    )


def report(answers=(), ratio=0.1):
    return Report(100, 8, "anchors", fidelity(ratio), {}, 1000, 80, tuple(answers))


def test_a_fact_that_the_compressed_prompt_no_longer_tells_is_lost_and_warned_of():
    kept = Answer(
        "Who is the mayor?", "The mayor is Bertram Quill.", "It is Bertram Quill!", "The mayor is a man."
    )
    lost = Answer("Who is the cook?", "The cook is Pavel Dorn.", "The cook is Anna.", "The cook is a man.")
    same = Answer("Who?", "A man.", "Another.", "A man.")
    unknown = Answer("Who?", "I do not know.", "Somebody.", "Nobody.", expected="Quill")
    assert [answer.lost for answer in (kept, lost, same, unknown)] == [False, True, False, False]
    assert lost.told == {"pavel", "dorn"}
    (warning,) = report([kept, lost, same, unknown]).warnings
    assert "1 of 4 answers were lost, the first to 'Who is the cook?'" in warning


def test_expected_words_decide_where_they_are_given():
    answer = Answer("Who?", "It is QUILL.", "It is quill, I think.", "No idea.", expected="Quill")
    assert answer.holds(answer.full)
    assert not answer.lost
    assert not answer.holds(answer.none)


def test_little_kept_is_warned_of():
    assert report(ratio=0.4).warnings == []
    assert "only 30% of the prompt's effect" in report(ratio=0.7).warnings[0]


def test_the_table_and_the_json_say_the_same():
    answers = [Answer("Who?", "Quill", "Dorn", "nobody", "Quill")]
    found = report(answers)
    rows = {row[0]: row[1:] for row in found.rows()}
    assert rows["the same, relative"] == ("0", "0.100", "1")
    assert rows["Who?"] == ("Quill", "Dorn", "nobody")
    assert found.as_json()["ratio"] == pytest.approx(0.1)
    assert found.as_json()["answers"][0]["lost"] is True
