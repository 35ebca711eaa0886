"""Questions made from sentences, and the words that answer them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.questions import Question, plain_prose, question_forms, questions_from

TEXT = (
    "The mayor of Quillan is Beatrix Sorley. The river of the valley is called the Tamsin. "
    "The bridge was built in 1786. A bus ticket costs four crowns."
)


def test_every_sentence_is_asked_for_as_a_gap_and_where_it_can_be_as_a_question():
    found = questions_from(TEXT, chat=True)
    assert Question("Who is the mayor of Quillan?", "Sorley") in found
    assert Question("What is the river of the valley called?", "Tamsin") in found
    gaps = [question for question in found if question.begun]
    assert [question.expected for question in gaps] == ["Sorley", "Tamsin", "1786", "four"]
    assert (gaps[0].begun, gaps[0].rest) == ("The mayor of Quillan is", " Beatrix Sorley")
    assert gaps[0].shown == "What does the text say? The mayor of Quillan is ..."


def test_what_points_elsewhere_is_no_question():
    found = questions_from("This is the guide to Ostrel. It is old.", chat=True)
    assert [question.begun for question in found] == ["This is the guide to"]


def test_behind_plain_text_they_are_lines_to_be_continued():
    found = questions_from("The mayor of Quillan is Beatrix Sorley.", chat=False)
    assert [question.text for question in found] == [
        "\n\nQuestion: Who is the mayor of Quillan?\nAnswer:",
        "\n\nAs said above:",
    ]
    assert (found[1].begun, found[1].rest) == (" The mayor of Quillan is", " Beatrix Sorley")


def test_marks_of_markdown_and_headings_are_not_asked_for():
    text = (
        "# Guide\n\n**Arrival.** Your *key* is in the [grey box](x.html).\n\n- The code is `5824`.\n\n| a |\n"
    )
    assert plain_prose(text) == "\nArrival. Your key is in the grey box.\n\nThe code is 5824.\n"
    found = questions_from(text, chat=True)
    assert Question("What is the code?", "5824") in found
    assert not any(mark in question.shown for question in found for mark in "#*`[|")


def test_words_that_stand_everywhere_are_not_expected():
    text = "The shed is the workshop. The workshop is large. The workshop is cold. The mayor is Ann Lee."
    assert {question.expected for question in questions_from(text, chat=True)} == {"large", "cold", "Lee"}


def test_gaps_make_way_for_questions():
    text = " ".join(f"The number of house {i} is {1000 + i}." for i in range(30))
    found = questions_from(text, chat=True, at_most=40)
    assert sum(not question.begun for question in found) == 30
    assert len(found) == 40


@given(text=st.text(alphabet="abc ABC.1'-,\n", max_size=200), chat=st.booleans())
def test_no_question_gives_its_answer_away(text, chat):
    for question in questions_from(text, chat):
        assert question.expected
        assert question.expected.casefold() in text.casefold()
        assert question.expected.casefold() not in question.begun.casefold()
        assert question.rest.endswith(question.expected) or not question.begun


@pytest.mark.parametrize("seed", range(3))
def test_of_many_questions_some_are_drawn_in_the_order_of_the_text(seed):
    text = " ".join(f"The number of house {i} is {1000 + i}." for i in range(60))
    found = questions_from(text, chat=True, at_most=20, seed=seed)
    assert len(found) == 20
    numbers = [int(question.expected) for question in found]
    assert numbers == sorted(numbers)


def test_words_that_are_neither_names_nor_numbers_are_asked_for_only_where_there_is_little_else():
    dull = "The keeper walks slowly through the meadow every evening."
    facts = [f"Number {place} belongs to somebody called Name{place}x." for place in range(30)]
    alone = questions_from(dull, chat=True)
    assert [question.expected for question in alone if question.begun]
    many = questions_from(" ".join([dull, *facts]), chat=True)
    assert all(question.expected[0].isupper() or question.expected[0].isdigit() for question in many)


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        ("The mayor of Quillan is Beatrix Sorley.", "Who is the mayor of Quillan?", "Beatrix Sorley"),
        ("The river is called the Tamsin.", "What is the river called?", "the Tamsin"),
        (
            "A full membership costs 18 euros a month.",
            "How much does a full membership cost?",
            "18 euros a month",
        ),
        ("pine costs 3 euros a kilo", "How much does pine cost?", "3 euros a kilo"),
        ("The deposit is 50 euros.", "How much is the deposit?", "50 euros"),
        ("The bridge was built in 1786 of stone.", "When was the bridge built?", "1786"),
        ("The kitchen is in the basement.", "Where is the kitchen?", "the basement"),
        ("The tour is on Saturdays.", "When is the tour?", "Saturdays"),
        ("The choir is led by Ann Lee on Mondays.", "By whom is the choir led?", "Ann Lee "),
        ("The club has 340 members.", "How many members does the club have?", "340"),
        ("The ferry sails on Tuesdays.", "When does the ferry sail?", "Tuesdays"),
        ("The crossing takes two hours.", "How long does the crossing take?", "two hours"),
    ],
)
def test_a_sentence_becomes_the_question_that_it_answers(sentence, question, answer):
    assert list(question_forms(sentence)) == [(question, answer)]


def test_every_clause_is_asked_for():
    told = "The network is called Seagull and the password is Driftwood, the chair is Ann Lee."
    assert [answer for _, answer in question_forms(told)] == ["Seagull", "Driftwood", "Ann Lee"]


def test_what_is_too_long_for_a_sentence_is_left_alone():
    assert list(question_forms("The club costs " + "on a " * 200 + "4")) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "It is old.",
        "On Saturdays it is open from nine until six.",
        "There are five rooms.",
        "Upstairs are the six machines.",
        "Permits are valid for two years.",
        "The ferry is long and has a cat.",
        "Whoever is late is the cook.",
    ],
)
def test_what_is_not_understood_is_not_asked_for(sentence):
    assert list(question_forms(sentence)) == []
