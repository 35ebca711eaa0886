"""Questions made from a text, and the words that answer them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.matching import holds_words
from attangent.compression.questions import (
    Question,
    forms_of,
    parts_of,
    questions_from,
    unasked_line,
    unasked_parts,
)

TEXT = (
    "The mayor of Quillan is Beatrix Sorley. The river of the valley is called the Tamsin. "
    "The bridge was built in 1786. A bus ticket costs four crowns."
)
GUIDE = """# Guide

**Arrival.** Your *key* is in the [grey box](x.html).

| room | size | floor |
|---|---|---|
| Whale | 31 | third |
| Shrew | 9 | second |

- Deposit: 50 euros
- The code is `5824`.

1. Open the blue valve.
2. Press the lever.

```python
LIMIT = 6
def price(weight, zone=2):
```

Please be quiet.
"""


def asked(text, **options):
    return {(question.text, question.expected) for question in questions_from(text, chat=True, **options)}


def test_each_fact_is_asked_for_in_its_own_words():
    questions = questions_from(TEXT, chat=True)
    assert [q.text for q in questions if q.expected == "Beatrix|Sorley"] == ["Who is the mayor of Quillan?"]
    assert [q.text for q in questions if q.expected == "four"] == ["How much does a bus ticket cost?"]
    assert {question.expected for question in questions} >= {"Beatrix|Sorley", "Tamsin", "1786", "four"}


def test_a_value_with_a_unit_is_asked_for_as_a_number():
    text = "| bread | oven |\n|---|---|\n| Rye | 240 degrees |\n| Roll | door sensor |\n"
    assert asked(text) >= {("Rye: oven?", "240"), ("Roll: oven?", "sensor")}


def test_a_number_is_expected_without_its_unit():
    text = "| Plot | Size | Speed |\n|---|---|---|\n| Full | 240 m² | 10 Gbit |\n"
    assert asked(text) >= {("What is the size of Full?", "240"), ("What is the speed of Full?", "10")}


def test_columns_in_the_plural_have_their_verb_in_the_plural():
    assert asked("| car | seats |\n|---|---|\n| Bison | 3 |\n") >= {("What are the seats of Bison?", "3")}


def test_a_step_is_its_first_sentence_without_the_verb():
    text = (
        "1. Measure the depth. The pump works down to 46 metres.\n2. Screw the brass valve onto the outlet.\n"
    )
    assert asked(text) == {("What is step 1?", "depth"), ("What is step 2?", "brass|valve|outlet")}


def test_what_a_sign_means_is_asked_for():
    text = "- Two beeps: channel B is dry.\n- E5: the turner is blocked. Take out the tray.\n"
    assert asked(text) >= {("What do Two beeps mean?", "B"), ("What does E5 mean?", "blocked")}


def test_an_order_is_not_asked_for_as_a_thing():
    assert asked("- Glass: clean with vinegar.\n") == {("Glass?", "vinegar")}


def test_speakers_of_a_chat_are_not_asked_for():
    questions = asked("Ivo: The tests are slow in winter.\n")
    assert not any("Ivo" in question for question, _ in questions)


def test_second_forms_follow_the_first():
    questions = [Question("a?", "x", 0), Question("b?", "x", 0), Question("c?", "y", 4)]
    assert [[question.text for question in form] for form in forms_of(questions)] == [["a?", "c?"], ["b?"]]


def test_no_form_is_the_sentence():
    for question in questions_from(TEXT, chat=True):
        assert not any(question.text.rstrip("?") in sentence for sentence in TEXT.split(". "))


def test_tables_lists_and_code_are_asked_for():
    questions = asked(GUIDE)
    assert ("What is the size of Whale?", "31") in questions
    assert ("Shrew: floor?", "second") in questions
    assert ("What is the Deposit?", "50") in questions
    assert ("What is the code?", "5824") in questions
    assert any(question.startswith("What is step 2") for question, _ in questions)
    assert ("What is the value of LIMIT?", "6") in questions
    assert ("What is the default of zone in price?", "2") in questions


def test_parts_without_a_question_are_named():
    unasked = unasked_parts(GUIDE, questions_from(GUIDE, chat=True))
    assert unasked == ["Guide: prose 'Please be quiet.'"]


def test_unasked_parts_are_named_by_their_headings_or_first_words():
    text = "It's one two three four five six.\n\nShort one.\n\n# Sheds: new\n\nA b.\n\n- c d\n- e f\n"
    labels = [part.label for part in parts_of(text)]
    names = '"It\'s one two three four five ...", "Short one.", "Sheds: new"'
    assert unasked_line(labels) == f"no question counts on {len(labels)} parts of the text: {names}"
    assert unasked_line(labels[1:2]) == 'no question counts on 1 part of the text: "Short one."'
    many = unasked_line([f"prose 'part {number}'" for number in range(7)])
    assert many.endswith('"part 3", "part 4"; report.json names all')
    assert many.startswith("no question counts on 7 parts of the text: ")


def test_marks_and_headings_are_not_asked_for():
    assert not any(mark in question for question, _ in asked(GUIDE) for mark in "#*`[|")
    assert [part.kind for part in parts_of(GUIDE)] == ["prose", "table", "list", "list", "code", "prose"]


def test_a_short_line_without_a_full_stop_is_a_heading():
    assert [part.heading for part in parts_of("Rules of the club\n\nWe meet at six.")] == [
        "Rules of the club"
    ]


def test_wrapped_lines_of_a_paragraph_are_joined():
    text = "The key of the old boat house by the lake hangs in the\noffice of Ann Lee, who lends it."
    assert parts_of(text)[0].sentences == [text.replace("\n", " ")]


def test_one_question_never_has_two_answers():
    text = "| light | colour |\n|---|---|\n| PWR | green |\n| PWR | amber |\n| RF | violet |\n"
    assert asked(text) == {("What is the colour of RF?", "violet"), ("RF: colour?", "violet")}


def test_questions_after_plain_text_are_lines_to_be_continued():
    questions = questions_from("The mayor of Quillan is Beatrix Sorley.", chat=False)
    assert questions[0].text == "\n\nQuestion: Who is the mayor of Quillan?\nAnswer:"


def test_words_that_stand_everywhere_are_not_expected():
    text = "The mayor is Ann Lee. Ann Lee lives here. Ask Ann Lee. The baker is Tom Oak."
    assert {expected for _, expected in asked(text)} == {"Tom|Oak"}


def test_german_texts_get_german_questions():
    text = "Der Jahresbeitrag beträgt 45 Euro. Das Haus öffnet um 9 Uhr.\n\n- Kaution: 50 Euro\n"
    assert {("Wie hoch ist der Jahresbeitrag?", "45"), ("Was steht bei Kaution?", "50")} <= asked(text)


@given(text=st.text(alphabet="abc ABC.1'-,\n|=:", max_size=200), chat=st.booleans())
def test_no_question_gives_its_answer_away(text, chat):
    expected = {}
    for question in questions_from(text, chat):
        assert question.expected
        assert not holds_words(question.text, question.expected)
        assert (
            expected.setdefault(question.text.casefold(), question.expected.casefold())
            == question.expected.casefold()
        )


@pytest.mark.parametrize("seed", range(3))
def test_of_many_facts_some_are_drawn_in_the_order_of_the_text(seed):
    text = " ".join(f"The number of house {i} is {1000 + i}." for i in range(60))
    questions = questions_from(text, chat=True, at_most=20, seed=seed)
    assert len({question.fact for question in questions}) == 20
    numbers = [question.fact for question in questions]
    assert numbers == sorted(numbers)


def test_every_part_gets_its_turn():
    text = "\n\n".join(
        " ".join(f"Box {i}{k} holds {100 * i + k} pens." for k in range(9)) for i in range(1, 6)
    )
    questions = questions_from(text, chat=True, at_most=5)
    assert len({question.part for question in questions}) == 5


def test_a_pronoun_is_replaced_by_the_subject_before_it():
    assert ("How many grams does the radio weigh?", "640") in asked(
        "The radio is green. It weighs 640 grams."
    )
    assert not asked("It weighs 640 grams. Its owner is Ann Lee.")
