"""Rules that turn a sentence into questions, each with the words that answer it."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from attangent.compression.matching import DENIAL
from attangent.compression.rules.actions import ACTIONS, PLACES
from attangent.compression.rules.answers import (
    plain_word,
    telling_number,
    telling_person,
    telling_place,
    telling_time,
    telling_word,
    telling_words,
    with_first_name,
)
from attangent.compression.rules.clauses import clauses_of, front_of
from attangent.compression.rules.conditions import CONDITIONS, DENIALS, LAST_RULES
from attangent.compression.rules.german import GERMAN
from attangent.compression.rules.names import name_forms, without_names
from attangent.compression.rules.rule import Form, first_form
from attangent.compression.rules.statements import STATEMENTS

# Maximum letters of a sentence: longer text is no sentence, and patterns take long on it.
_LONGEST = 600
_ASKS_FOR_CLAUSE = ("What happens", "What must be done", "What is the exception")
_ASKS_FOR_NUMBER = ("How ", "For how", "By how much", "Within how many")
_ASKS_FOR_TIME = ("When", "From when", "Until when", "By when")


class AskedFact(NamedTuple):
    """Words that answer a question, and the forms of the question."""

    expected: str
    forms: tuple[str, ...]


def sentence_facts(sentence: str, german: bool = False) -> list[AskedFact]:
    """Return the facts of a sentence, each with the forms of its question.

    Example:
        >>> sentence_facts("The filter is cleaned every six months.")
        [AskedFact(expected='six', forms=('How often is the filter cleaned?',))]
    """
    if len(sentence) > _LONGEST:
        return []
    forms: dict[str, list[str]] = {}
    for question, answer in _questions(sentence, german):
        expected = _expected(question, answer, sentence)
        if expected:
            forms.setdefault(expected, []).append(question)
    return [AskedFact(expected, tuple(dict.fromkeys(questions))) for expected, questions in forms.items()]


def _questions(sentence: str, german: bool) -> Iterator[Form]:
    """Yield the questions of all rules that match, clause by clause, each with its answer."""
    sentence = sentence.rstrip(".!;:")
    if german:
        yield from first_form(sentence, GERMAN)
        return
    sentence = sentence.replace("annot ", "an not ")
    forms = first_form(sentence, CONDITIONS)
    # "Alcohol is not paid, unless clients are present" denies nothing; nor does "the lid is not closed" as
    # the meaning of a lamp.
    is_rule = sentence[:1].isupper() and not re.search(r"\b(?:unless|except|apart from)\b", sentence)
    statements = [*ACTIONS, *STATEMENTS]
    for clause in clauses_of(without_names(sentence)):
        forms += first_form(clause, [*DENIALS, *statements] if is_rule else statements)
        forms += first_form(clause, PLACES)
        front, main = front_of(clause)
        fronted = [*first_form(main, statements), *first_form(main, PLACES)] if front else []
        forms += [(f"{question.rstrip('?')} {front}?", answer) for question, answer in fronted]
    forms += name_forms(sentence)
    yield from forms or first_form(sentence, LAST_RULES)


def _expected(question: str, answer: str, sentence: str) -> str:
    """Return the words of which a right answer contains one."""
    if answer == DENIAL:
        return answer
    if question.startswith(_ASKS_FOR_CLAUSE):
        known = {word.casefold() for word in map(plain_word, question.split())}
        return "|".join(telling_words(answer, known))
    if question.startswith(_ASKS_FOR_TIME):
        return telling_time(answer)
    if question.startswith(_ASKS_FOR_NUMBER):
        return telling_number(answer)
    if question.startswith("Where "):
        return telling_place(answer, sentence)
    if question.startswith("Who "):
        return telling_person(answer, sentence)
    return with_first_name(telling_word(answer), sentence)
