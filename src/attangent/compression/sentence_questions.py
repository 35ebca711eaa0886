"""Questions on a sentence: each fact of it is asked for in several forms, none of which is the sentence."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from attangent.compression.matching import DENIAL, GENERIC, NUMBERS, SMALL
from attangent.compression.sentence_rules import MONEY, TIME, ruled_questions

# Maximum letters of a sentence: anything longer is no sentence, and patterns take long on it.
_LONGEST = 600

# Key words in a row that stay together in a question.
_LONGEST_RUN = 4
_SHORTEST_REST = 2
_QUANTITIES = ("How m", "In which year", "Wie viel", "In welchem Jahr")


class AskedFact(NamedTuple):
    """Words that answer a question, and the forms of the question."""

    expected: str
    forms: tuple[str, ...]


def sentence_facts(sentence: str, german: bool = False) -> list[AskedFact]:
    """Return the facts of a sentence, each with the forms in which it is asked for."""
    if len(sentence) > _LONGEST:
        return []
    forms: dict[str, list[str]] = {}
    for question, answer in ruled_questions(sentence, german):
        word = answer if answer == DENIAL else telling_word(answer)
        if word:
            forms.setdefault(word, []).append(question)
    for value, questions in keyword_forms(sentence, german):
        # A name may be asked for by another of its words: one fact, one expected word.
        known = next((word for word in forms if word in value.split()), None)
        forms.setdefault(known or telling_word(value) or value, []).extend(questions)
    return [
        AskedFact(with_first_name(word, sentence), tuple(dict.fromkeys(questions)))
        for word, questions in forms.items()
    ]


def with_first_name(word: str, sentence: str) -> str:
    """Return a last name with the first name before it as an alternative; other words unchanged."""
    match = re.search(rf"\b([A-Z][\w'-]+) {re.escape(word)}\b", sentence) if word[:1].isupper() else None
    first = match[1] if match else ""
    return f"{first}|{word}" if first and first.casefold() not in SMALL | GENERIC else word


def telling_word(answer: str) -> str:
    """Return the word of an answer that proves it: its last number or name, else its longest long word."""
    words = [plain_word(word) for word in answer.split()]
    words = [word for word in words if word and word.casefold() not in SMALL]
    named = [word for word in words if is_value(word)]
    names = [word for word in named if word.casefold() not in GENERIC] or named
    if names:
        return names[-1]
    long = [word for word in words if len(word) > 3]
    return max(reversed(long), key=len, default="")


def is_value(word: str) -> bool:
    """Return whether a word is a name or a number."""
    return word[0].isupper() or any(letter.isdigit() for letter in word) or _is_number(word)


def _is_number(word: str) -> bool:
    return word.casefold().split("-")[0] in NUMBERS


def plain_word(word: str) -> str:
    """Remove the punctuation around a word."""
    return re.sub(r"^\W+|\W+$|['’]s$", "", word)


def keyword_forms(sentence: str, german: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield each number and name of a sentence with questions made of the sentence's other key words."""
    for clause in re.split(r"(?<=\w)[,;:] | \((?=\w)|\) ", sentence.rstrip(".!?;:")):
        words = clause.split()
        for start, end in _values(words, german):
            value = " ".join(plain_word(word) for word in words[start:end])
            ask, used = _question_word(words, start, end, german)
            chunks = _chunks([*words[:start], "", *words[used:]])
            questions = _value_first(words, start, used, ask)
            # After key words, "who?" or "when?" may ask for anything: only quantities are clear.
            if ask.startswith(_QUANTITIES) and sum(len(chunk.split()) for chunk in chunks) > 1:
                questions.append(f"{', '.join(chunks[:3])}: {ask[0].lower()}{ask[1:]}?")
            if value and questions:
                yield value, questions


def _value_first(words: Sequence[str], start: int, used: int, ask: str) -> list[str]:
    """Return the clause with the value, with which it begins, replaced by a question word."""
    opening = " ".join(words[:start]).casefold()
    rest = words[used:]
    openings = ("", "up to", "at most", "at least", "about", "the", "only")
    if opening not in openings or len(rest) < _SHORTEST_REST or _has_digit(rest[0]):
        return []
    return [f"{ask} {' '.join(rest)}?"]


def _values(words: Sequence[str], german: bool) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each number and name; German nouns are no names."""
    index = 0
    while index < len(words):
        end = index
        while end < len(words) and _is_part_of_name(words, end, index, german):
            end += 1
        if end > index + (german and not _has_digit(words[index])):
            yield index, end
        elif _has_digit(words[index]) or _is_number(plain_word(words[index])):
            end = index + 1
            yield index, end
        index = max(end, index + 1)


def _is_part_of_name(words: Sequence[str], index: int, first: int, german: bool) -> bool:
    word = plain_word(words[index])
    if not word or _has_digit(word) or not word[0].isupper() or word.casefold() in SMALL:
        return False
    # The first word of a sentence is capitalised anyway, unless a name continues after it.
    alone = index == 0 and not (len(words) > 1 and words[1][:1].isupper())
    ended = index > first and words[index - 1][-1] in ",.;:"
    return not alone and not ended and not _is_number(word)


def _has_digit(word: str) -> bool:
    return any(letter.isdigit() for letter in word)


def _question_word(words: Sequence[str], start: int, end: int, german: bool) -> tuple[str, int]:
    """Return the question word for a value, and the index after the value and its unit."""
    value = plain_word(words[start])
    after = plain_word(words[end]) if end < len(words) else ""
    before = words[start - 1].casefold() if start else ""
    if MONEY.search(words[start] + " " + after):
        return ("Wie viel" if german else "How much"), end + bool(MONEY.search(after))
    if re.fullmatch(r"1\d{3}|20\d{2}", value) and before in ("in", "since", "seit", "jahr", "of", "until"):
        return ("In welchem Jahr" if german else "In which year"), end
    if _has_digit(value) or _is_number(value):
        if after == "Uhr" or (not german and before in ("at", "until", "from")):
            return ("Wann" if german else "At what time"), end + (after == "Uhr")
        if re.fullmatch(r"[\d.,]+", value) or _is_number(value):
            counted = after.isalpha() and after.casefold() not in SMALL and len(after) > 2
            if counted:
                further = plain_word(words[end + 1]) if end + 1 < len(words) else ""
                two = further.islower() and further.endswith("s") and further not in SMALL and not german
                unit = f"{after} {further}" if two else after
                return (f"Wie viele {unit}" if german else f"How many {unit}"), end + 1 + two
            return ("Welche Zahl" if german else "What number"), end
        return ("Was" if german else "What"), end
    if TIME.match(value):
        return ("Wann" if german else "When"), end
    is_person = end - start > 1 and plain_word(words[end - 1]).casefold() not in GENERIC
    return (("Wer" if german else "Who") if is_person else ("Was" if german else "What")), end


def _chunks(words: Sequence[str]) -> list[str]:
    """Return runs of consecutive key words, the longest first."""
    chunks: list[str] = []
    run: list[str] = []
    for word in [*words, ""]:
        plain = plain_word(word)
        if plain and plain.casefold() not in SMALL and len(run) < _LONGEST_RUN:
            run.append(plain)
        elif run:
            chunks.append(" ".join(run))
            run = []
    return sorted(chunks, key=lambda chunk: -len(chunk))
