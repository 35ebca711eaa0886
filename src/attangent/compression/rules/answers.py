"""Words that prove that an answer is right: the numbers, names and long words of the expected answer."""

import re

from attangent.compression.matching import GENERIC, NUMBERS, SMALL

_ALTERNATIVES = 3
_SHORT_WORD = 4
_CLOCK = r"(?: o'clock| ?[ap]\.?m\b|$|,| in the | on | and | to | until | every | before | after )"
_DURATION = r" (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|nights?)\b"
_DAY = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|weekends?|january|february|march|april|may|june|july|"
    "august|september|october|november|december|spring|summer|autumn|winter"
)
_HOUR = rf"(?:half past |quarter (?:past|to) )?(?:\d{{1,3}}(?:[.:]\d\d)?|{'|'.join(NUMBERS)})"
_TIMES = (
    r"\d{4}\b",
    rf"{_HOUR}(?={_CLOCK}|{_DURATION})",
    r"(?:noon|midnight)\b",
    rf"(?:the (?:first|second|third|last) )?(?:{_DAY})\b",
    r"the (?:morning|afternoon|evening)s?\b",
    r"the (?:beginning|end|start) of\b",
)
TIME = rf"(?i:{'|'.join(_TIMES)})"
"""Pattern of a clock time, a date or a duration."""
NUMBER = rf"(?i:\W?\d|(?:{'|'.join(NUMBERS)})\b)"
"""Pattern of the beginning of a number, in digits or words."""


def telling_words(clause: str) -> list[str]:
    """Return the words that prove that an answer says a clause: numbers and names, else the longest ones."""
    words = [word for word in _words(clause) if word.casefold() not in SMALL | GENERIC]
    # The first word has a capital letter because a sentence begins with it.
    named = [word for i, word in enumerate(words) if is_value(word) and (i > 0 or not word.istitle())]
    long = [word for word in words if len(word) > _SHORT_WORD and word not in named]
    return named[-_ALTERNATIVES:] or sorted(long, key=len, reverse=True)[:_ALTERNATIVES]


def telling_word(answer: str) -> str:
    """Return the word of an answer that proves it: its last number or name, else its longest long word."""
    words = [word for word in _words(answer) if word.casefold() not in SMALL]
    named = [word for word in words if is_value(word)]
    names = [word for word in named if word.casefold() not in GENERIC] or named
    if names:
        return names[-1]
    long = [word for word in words if len(word) > 3]
    return max(reversed(long), key=len, default="")


def telling_number(answer: str) -> str:
    """Return the first number of an answer, or its telling word if it has none."""
    numbers = (word for word in _words(answer) if word[0].isdigit() or _is_number_word(word))
    return next(numbers, telling_word(answer))


def telling_time(answer: str) -> str:
    """Return the telling word of the time with which an answer begins, or of the answer."""
    time = re.match(TIME, answer)
    return (telling_word(time[0]) if time else "") or telling_word(answer)


def with_first_name(word: str, sentence: str) -> str:
    """Return a last name with the first name before it as an alternative; other words unchanged."""
    match = re.search(rf"\b([A-Z][\w'-]+) {re.escape(word)}\b", sentence) if word[:1].isupper() else None
    first = match[1] if match else ""
    return f"{first}|{word}" if first and first.casefold() not in SMALL | GENERIC else word


def is_value(word: str) -> bool:
    """Return whether a word is a name or a number."""
    return word[0].isupper() or any(letter.isdigit() for letter in word) or _is_number_word(word)


def _is_number_word(word: str) -> bool:
    return word.casefold().split("-")[0] in NUMBERS


def _words(text: str) -> list[str]:
    return [word for word in map(plain_word, text.split()) if word]


def plain_word(word: str) -> str:
    """Remove the punctuation around a word."""
    return re.sub(r"^\W+|\W+$|['’]s$", "", word)
