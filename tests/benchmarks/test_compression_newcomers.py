"""The texts of a newcomer's: what is asked stands in them, and the table says what was found."""

import pytest

from attangent.compression.quiz import holds_words
from benchmarks.suites.compression.newcomers import BUILT_ON, REPORTED, TEXTS, _right, table


@pytest.mark.parametrize("name", [*BUILT_ON, *REPORTED])
def test_every_question_has_its_answer_in_the_text(name):
    text = (TEXTS / f"{name}.txt").read_text()
    lines = (TEXTS / f"{name}_questions.tsv").read_text().splitlines()
    assert len(lines) >= 16
    for question, words in (line.split("\t") for line in lines):
        assert question.endswith("?")
        assert holds_words(text, words)


def test_no_text_was_both_built_on_and_reported():
    assert not set(BUILT_ON) & set(REPORTED)
    assert {path.stem for path in TEXTS.glob("*.txt")} == {*BUILT_ON, *REPORTED}


def test_the_table_says_what_was_found_and_what_a_reader_gets():
    row = {
        "text": "school", "prompt_tokens": 900, "size": 64, "distilled": 12, "times": 14.06, "kept": 30,
        "asked": 31, "ratio": 0.05, "in_all": 71.4, "reader": {"full": 9, "behind": 8, "questions": 24},
    }  # fmt: skip
    *_, line = table([row]).splitlines()
    assert line == "| school | 900 | 64, 12 steps | 14.1 | 30 of 31 | 9, 8 of 24 | 0.050 | 71 |"


def test_an_answer_is_right_that_has_the_words():
    assert _right(["It is QUILL.", "nobody"], ["quill", "Dorn"]) == 1
