"""The report: what is lost, warned of, and shown."""

from dataclasses import asdict, replace

import pytest

from attangent.compression.fidelity import Fidelity
from attangent.compression.quiz.answers import Answer
from attangent.compression.report import Report
from attangent.compression.size_search import Attempt


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


def test_an_export_says_what_it_keeps_and_is_warned_of_where_it_keeps_less():
    own = (Answer("Who?", "Quill", "Quill", "nobody", "Quill"),) * 10
    about = {"folder": "peft", "size": 24, "distilled": 12, "kept": 8, "ratio": 0.05}
    found = replace(report(), own=own, exported=about)
    assert found.export_line == (
        "peft: 24 tokens for each head, trained for 12 steps; answers kept: 8 of 10, relative KL 0.050"
    )
    assert "the export keeps 8 answers, the adapter 10" in found.warnings[0]
    assert replace(found, exported=about | {"kept": 9}).warnings == []
    assert report().export_line == ""


def test_the_table_and_the_json_say_the_same():
    answers = [Answer("Who?", "Quill", "Dorn", "nobody", "Quill")]
    found = report(answers)
    rows = {row[0]: row[1:] for row in found.rows()}
    assert rows["the same, relative"] == ("0", "0.100", "1")
    assert rows["Who?"] == ("Quill", "Dorn", "nobody")
    assert found.as_json()["ratio"] == pytest.approx(0.1)
    assert found.as_json()["answers"][0]["lost"] is True


def test_what_was_done_is_said_with_all_that_was_tried():
    assert report().course == "12.5 times smaller: 8 tokens for each head"
    tried = [asdict(Attempt(8, steps, kept, 10, kept / 10, 80, 1.0)) for steps, kept in ((0, 6), (12, 10))]
    goal = {"met": True, "stopped": "", "attempts": tried}
    trained = replace(report(), distilled=12, goal=goal)
    assert trained.course == (
        "12.5 times smaller: 8 tokens for each head, trained for 12 steps; tried: 8 (6 of 10), "
        "8 trained (10 of 10)"
    )
    assert trained.warnings == []
    unmeasured = replace(report(), goal=goal | {"attempts": [tried[0] | {"asked": 0}] * 2})
    assert "8 (60% of next tokens)" in unmeasured.course


def test_a_prompt_that_stays_as_it_is_says_what_to_do():
    tried = [asdict(Attempt(size, 0, 9, 10, 0.9, 80, 1.0)) for size in (8, 100)]
    whole = replace(report(), size=100, goal={"met": True, "stopped": "", "attempts": tried})
    assert whole.course.startswith("the prompt stays as it is, 100 tokens; tried: 8 (9 of 10)")
    assert any("--keep 0.8" in warning for warning in whole.warnings)
