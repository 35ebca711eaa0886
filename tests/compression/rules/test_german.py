"""Questions made of German sentences."""

import pytest

from attangent.compression.rules import sentence_facts
from attangent.compression.rules.german import is_german


@pytest.mark.parametrize(
    ("sentence", "question", "answer"),
    [
        ("Eine Tageskarte kostet 12,50 Euro.", "Was kostet eine Tageskarte?", "12,50"),
        ("Der Fluss heißt Tamsin.", "Wie heißt der Fluss?", "Tamsin"),
        ("Der Jahresbeitrag beträgt 45 Euro.", "Wie hoch ist der Jahresbeitrag?", "45"),
        ("Die Fahrt dauert 9 Stunden.", "Wie lange dauert die Fahrt?", "9"),
        ("Das Haus öffnet um 9 Uhr.", "Wann beginnt das Haus?", "9"),
        ("Die Leiterin ist Anna Lind.", "Wer ist die Leiterin?", "Anna|Lind"),
        ("Das Rathaus steht neben der Mühle.", "Wo ist das Rathaus?", "Mühle"),
        ("Die Hausnummer ist 17.", "Was ist die Hausnummer?", "17"),
    ],
)
def test_a_sentence_becomes_the_question_that_it_answers(sentence, question, answer):
    facts = sentence_facts(sentence, german=True)
    assert [(fact.forms, fact.expected) for fact in facts] == [((question,), answer)]


def test_most_function_words_decide_whether_a_text_is_german():
    assert is_german("Das Haus ist alt und die Tür ist neu.")
    assert not is_german("The house is old, and the man named Der is new.")
