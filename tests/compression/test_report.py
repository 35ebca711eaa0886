"""The report: what is lost, warned of, and shown."""

from dataclasses import replace

import pytest

from attangent.compression.asking.answers import Answer
from attangent.compression.fidelity import Fidelity
from attangent.compression.report import Report


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
    assert lost.brought == {"pavel", "dorn"}
    (warning,) = report([kept, lost, same, unknown]).warnings
    assert "1 of 4 answers were lost, the first to 'Who is the cook?'" in warning


def test_little_kept_is_warned_of():
    assert report(ratio=0.4).warnings == []
    assert "only 30% of the prompt's effect" in report(ratio=0.7).warnings[0]


def test_few_questions_are_warned_of():
    own = (Answer("Who?", "Quill", "Quill", "nobody", "Quill"),) * 9
    assert "only 9 questions count" in replace(report(), own=own).warnings[0]
    assert replace(report(), own=own + own[:1]).warnings == []


def test_the_table_and_the_json_say_the_same():
    answers = [Answer("Who?", "Quill", "Dorn", "nobody", "Quill")]
    found = report(answers)
    rows = {row[0]: row[1:] for row in found.rows()}
    assert rows["the same, relative"] == ("0", "0.100", "1")
    assert rows["Who?"] == ("Quill", "Dorn", "nobody")
    assert found.as_json()["ratio"] == pytest.approx(0.1)
    assert found.as_json()["answers"][0]["lost"] is True
