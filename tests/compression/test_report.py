"""The report: fidelity against slow sums, what is lost, warned of and shown, and the curve."""

from dataclasses import asdict, replace

import pytest

from attangent.compression.fidelity import Fidelity
from attangent.compression.quiz import Answer
from attangent.compression.report import Attempt, Report, draw_curve


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
    own = tuple(Answer("Who?", "Quill", "Quill", "nobody", "Quill", fact) for fact in range(10))
    rough = replace(report(), own=own[:9] + own[:1])
    assert rough.warnings == [
        "only 9 facts count, so the share kept is rough; add your own questions with --ask, with the words "
        "of their answers"
    ]
    assert "the model answers 9 of 31 questions" in replace(rough, candidates=31).rough
    assert replace(report(), own=own[:1]).rough.startswith("only 1 fact counts, so")
    assert replace(report(), own=own, candidates=31).warnings == []


def test_lost_facts_unasked_parts_and_misses_of_the_full_prompt_are_named():
    own = (
        Answer("Who?", "Ann Quill", "Dorn", "nobody", "Ann|Quill", 0),
        Answer("When?", "1931", "1931", "", "1931", 1),
    )
    missed = Answer("Where?", "in Oslo", "in Rome", "in Paris", "Rome")
    described = replace(report([missed]), own=own, unasked=("Care: prose 'Wash it'",))
    assert described.headline == "facts kept: 1 of 2, between 9% and 91% of all such facts"
    assert described.details == [
        "lost: Who? expected 'Ann or Quill', got 'Dorn'",
        'no question counts on 1 part of the text: "Care"',
        "the full prompt misses: Where? expected 'Rome', got 'in Oslo'",
    ]


def test_a_decoding_step_is_a_row_only_if_it_is_faster_than_with_the_full_prompt():
    slower = replace(report(), decode={"full": 0.442, "compressed": 0.5914, "none": 0.3694})
    assert slower.details == ["decoding is faster than with the full prompt from about 310 tokens on"]
    assert "one decoding step" not in {row[0] for row in slower.rows()}
    assert slower.as_json()["decode"]["full"] == 0.442
    faster = replace(report(), decode={"full": 0.442, "compressed": 0.0384, "none": 0.00814})
    assert faster.rows()[-1] == ("one decoding step", "442 ms", "38 ms", "8.1 ms")
    assert faster.details == ["decoding is faster than with the full prompt from about 7 tokens on"]
    flat = replace(report(), decode={"full": 0.4, "compressed": 0.3, "none": 0.5})
    assert "one decoding step" not in {row[0] for row in flat.rows()}


def test_an_export_says_what_it_keeps_and_is_warned_of_where_it_keeps_less():
    own = tuple(Answer("Who?", "Quill", "Quill", "nobody", "Quill", fact) for fact in range(10))
    about = {"folder": "peft", "size": 24, "distilled": 12, "kept": 8, "ratio": 0.05}
    found = replace(report(), own=own, exported=about)
    assert found.export_line == (
        "peft: 24 tokens per head, trained for 12 steps; facts kept: 8 of 10, relative KL 0.050"
    )
    assert "the export keeps 8 answers, the adapter 10" in found.warnings[0]
    assert replace(found, exported=about | {"kept": 9}).warnings == []
    assert report().export_line == ""


def test_the_table_and_the_json_say_the_same():
    answers = [Answer("Who?", "Quill", "Dorn", "nobody", "Quill")]
    found = report(answers)
    rows = {row[0]: row[1:] for row in found.rows()}
    assert rows["effect of the prompt"] == ("100%", "90.0%", "0%")
    assert "loss on its text" not in rows
    assert found.as_json()["fidelity"]["loss"]["full"] == 1.0
    assert rows["Who?"] == ("Quill", "Dorn", "nobody")
    assert found.as_json()["ratio"] == pytest.approx(0.1)
    assert found.as_json()["answers"][0]["lost"] is True


def test_what_was_done_is_said_with_all_that_was_tried():
    assert report().course == "12.5 times smaller: 8 tokens per head"
    tried = [asdict(Attempt(8, steps, kept, 10, kept / 10, 80, 1.0)) for steps, kept in ((0, 6), (12, 10))]
    goal = {"met": True, "stopped": "", "attempts": tried}
    trained = replace(report(), distilled=12, goal=goal)
    assert trained.course == (
        "12.5 times smaller: 8 tokens per head, trained for 12 steps; tried: 8 (6 of 10), "
        "8 trained (10 of 10)"
    )
    assert trained.warnings == []
    unmeasured = replace(report(), goal=goal | {"attempts": [tried[0] | {"asked": 0}] * 2})
    assert "8 (60% of next tokens)" in unmeasured.course


def test_a_prompt_that_stays_as_it_is_says_what_to_do():
    tried = [asdict(Attempt(size, 0, 9, 10, 0.9, 80, 1.0)) for size in (8, 100)]
    whole = replace(report(), size=100, goal={"met": True, "stopped": "", "attempts": tried})
    assert whole.course.startswith("the prompt stays unchanged, 100 tokens; tried: 8 (9 of 10)")
    assert any("--keep 0.8" in warning for warning in whole.warnings)


@pytest.mark.parametrize("asked", [0, 10])
def test_the_curve_is_a_picture(asked, tmp_path):
    attempts = [Attempt(16, 0, 3, asked, 0.3, 100, 1.0), Attempt(32, 5, 9, asked, 0.9, 200, 2.0)]
    draw_curve(attempts, 0.9, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]
