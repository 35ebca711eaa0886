"""Sentences turned into questions: which one, and what answers it."""

import pytest

from attangent.compression.quiz.forms import asked_forms


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
    assert list(asked_forms(sentence)) == [(question, answer)]


def test_every_clause_is_asked_for():
    told = "The network is called Seagull and the password is Driftwood, the chair is Ann Lee."
    assert [answer for _, answer in asked_forms(told)] == ["Seagull", "Driftwood", "Ann Lee"]


def test_what_is_too_long_for_a_sentence_is_left_alone():
    assert list(asked_forms("The club costs " + "on a " * 200 + "4")) == []


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
    assert list(asked_forms(sentence)) == []
