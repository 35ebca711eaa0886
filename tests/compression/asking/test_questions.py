"""Questions made from sentences, and the words that answer them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.asking.questions import Question, questions_from

TEXT = (
    "The mayor of Quillan is Beatrix Sorley. The river of the valley is called the Tamsin. "
    "The bridge was built in 1786. A bus ticket costs four crowns."
)


def test_every_sentence_is_asked_for_as_a_gap_and_where_it_can_be_as_a_question():
    found = questions_from(TEXT, chat=True)
    assert Question("Who is the mayor of Quillan?", "Sorley") in found
    assert Question("What is the river of the valley called?", "Tamsin") in found
    gaps = [question for question in found if question.text.startswith("Complete")]
    assert [question.expected for question in gaps] == ["Sorley", "Tamsin", "1786", "crowns"]
    assert '"The mayor of Quillan is ..."' in gaps[0].text


def test_what_points_elsewhere_is_no_question():
    assert [q.text[:8] for q in questions_from("This is the guide to Ostrel. It is old.", chat=True)] == [
        "Complete"
    ]


def test_behind_plain_text_they_are_lines_to_be_continued():
    found = questions_from("The mayor of Quillan is Beatrix Sorley.", chat=False)
    assert [question.text for question in found] == [
        "\n\nAs said above: The mayor of Quillan is",
        "\n\nQuestion: Who is the mayor of Quillan?\nAnswer:",
    ]


@given(text=st.text(alphabet="abc ABC.1'-,\n", max_size=200), chat=st.booleans())
def test_no_question_gives_its_answer_away(text, chat):
    for question in questions_from(text, chat):
        assert question.expected
        shown = question.text.split(chr(34))[1] if question.text.startswith("Complete") else question.text
        assert question.expected.casefold() in text.casefold()
        if "As said above: " in question.text:
            shown = question.text.split("As said above: ")[1]
            assert question.expected.casefold() not in shown.casefold()


@pytest.mark.parametrize("seed", range(3))
def test_of_many_questions_some_are_drawn_in_the_order_of_the_text(seed):
    text = " ".join(f"The number of house {i} is {1000 + i}." for i in range(60))
    found = questions_from(text, chat=True, at_most=20, seed=seed)
    assert len(found) == 20
    numbers = [int(question.expected) for question in found]
    assert numbers == sorted(numbers)
