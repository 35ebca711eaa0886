"""Words that prove that an answer is right: the numbers, names and long words of the expected answer."""

import re
from collections.abc import Collection

from attangent.compression.matching import GENERIC, NUMBERS, SMALL

_ALTERNATIVES = 3
_LONG_WORD = 4
# Longer words that prove nothing.
_VAGUE = frozenset((
    "again", "already", "anybody", "anyone", "anything", "else", "ever", "everything", "never", "onto",
    "somebody", "someone", "something", "then", "therefore", "together", "towards", "upwards", "very",
))  # fmt: skip
# Words that prove no clause because most clauses could have them.
_COMMON = frozenset((
    "back", "come", "comes", "done", "early", "first", "given", "goes", "later", "made", "needs", "second",
    "twice", "used", "wait",
))  # fmt: skip
_CLOCK = r"(?: o'clock| ?[ap]\.?m\b|$|,(?!\d)| in the | on | and | to | until | every | before | after )"
_UNIT = r" (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|nights?)\b"
_MONTH = (
    "january|february|march|april|may|june|july|august|september|october|november|december|"
    "spring|summer|autumn|winter"
)
_DAY = rf"(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|weekends?|{_MONTH}"
_HOUR = rf"(?:half past |quarter (?:past|to) )?(?:\d{{1,3}}(?:[.:]\d\d)?|(?:{'|'.join(NUMBERS)})(?:-[a-z]+)?)"
_TIMES = (
    rf"(?:\d{{1,2}} )?(?:{_MONTH}) \d{{4}}\b",
    r"\d{4}\b",
    rf"\d{{1,2}} (?:{_MONTH})\b",
    rf"{_HOUR}(?={_CLOCK}|{_UNIT})",
    r"(?:noon|midnight|night)\b",
    rf"(?:the (?:first|second|third|last) )?(?:{_DAY})\b",
    r"the (?:morning|afternoon|evening)s?\b",
    r"the (?:beginning|end|start|(?:first|second|last) (?:day|week|half)) of (?:the |each |every )?"
    rf"(?:school |working )?(?:{_DAY}|day|week|month|quarter|year|season|term|shift|holidays|morning|evening|"
    r"night)\b",
)
TIME = rf"(?i:{'|'.join(_TIMES)})"
"""Pattern of a clock time, a date or a duration."""
DURATION = rf"(?i:{_HOUR}(?: working)?{_UNIT})"
"""Pattern of a duration."""
_PREPOSITIONS = r" (?:in|on|at|of|by|under|behind|next to|above|beside|near|between|along|opposite) "
NUMBER = rf"(?i:\W?\d|(?:{'|'.join(NUMBERS)})\b)"
"""Pattern of the beginning of a number, in digits or words."""


def telling_words(clause: str, known: Collection[str] = ()) -> list[str]:
    """Return words that prove that an answer says a clause: numbers, or names and long words.

    Args:
        clause: The clause.
        known: Words that the question contains, in lower case. They prove nothing.
    """
    words = [word for word in _words(clause) if word.casefold() not in {*GENERIC, *_COMMON, *known}]
    # The first word has a capital letter because a sentence begins with it.
    named = [word for i, word in enumerate(words) if is_value(word) and (i > 0 or not word.istitle())]
    if any(map(_is_number, named)):
        return named[-_ALTERNATIVES:]
    shortest = _LONG_WORD + 1 if named else _LONG_WORD
    long = [word for word in reversed(words) if len(word) >= shortest and word not in named]
    chosen = named[-_ALTERNATIVES:] + sorted(long, key=len, reverse=True)
    chosen = chosen[: _ALTERNATIVES + 1 if named else _ALTERNATIVES]
    return list(dict.fromkeys(word for word in words if word in chosen))


def telling_word(answer: str) -> str:
    """Return the word that proves an answer: its opening number, last name or number, or a long word."""
    words = _words(answer)
    # "Nine Sisters" is a name.
    if words and _is_number(words[0]) and not words[0].istitle():
        return words[0]
    named = [word for word in words if is_value(word)]
    names = [word for word in named if word.casefold() not in GENERIC] or named
    if names:
        return names[-1]
    long = [word for word in words if len(word) >= _LONG_WORD]
    return max(reversed(long), key=len, default="")


def telling_number(answer: str) -> str:
    """Return the first number of an answer, or its telling word if it has none."""
    return next(filter(_is_number, _words(answer)), telling_word(answer))


def telling_time(answer: str) -> str:
    """Return the last word of the time with which an answer begins, or the telling word of other answers."""
    time = re.match(TIME, answer)
    return plain_word(time[0].split()[-1]) if time else telling_word(answer)


def telling_person(answer: str, sentence: str) -> str:
    """Return the names of the person in an answer and the noun for it, as alternatives.

    Example:
        >>> telling_person("the house manager", "It goes to the house manager, Ann Lee, in May.")
        'manager|Ann|Lee'
    """
    word = telling_word(answer)
    if not word or is_value(word):
        return with_first_name(word, sentence)
    nouns = [noun for noun in _words(answer.split(" of ")[0]) if len(noun) >= _LONG_WORD] or [word]
    name = re.search(rf"{re.escape(answer)}, ((?:[A-Z][\w'-]+ ?)+)", sentence)
    return "|".join([nouns[-1], *(name[1].split() if name else ())])


def telling_place(answer: str, sentence: str) -> str:
    """Return the telling words of a place and of the places around it, as alternatives.

    Example:
        >>> telling_place("the drawer under the window", "Knives are in the drawer under the window.")
        'drawer|window'
    """
    words: list[str] = []
    first, *others = re.split(_PREPOSITIONS, re.split(" (?:with|for|to|from|during|every) ", answer)[0])
    for place in [first, *(other for other in others if not re.match(TIME, other))]:
        # "Three turbines" are turbines, but "bin 5" is 5.
        named = re.sub(rf"^{NUMBER}\S* (?=[a-z])", "", place)
        words += with_first_name(telling_word(named), sentence).split("|")
    return "|".join(dict.fromkeys(filter(None, words)))


def with_first_name(word: str, sentence: str) -> str:
    """Return a last name with the first name before it as an alternative; other words unchanged."""
    match = re.search(rf"\b([A-Z][\w'-]+) {re.escape(word)}\b", sentence) if word[:1].isupper() else None
    first = match[1] if match else ""
    return f"{first}|{word}" if first and first.casefold() not in SMALL | GENERIC else word


def is_value(word: str) -> bool:
    """Return whether a word is a name or a number."""
    return word[0].isupper() or any(map(str.isdecimal, word)) or _is_number(word)


def _is_number(word: str) -> bool:
    return word[0].isdecimal() or word.casefold().split("-")[0] in NUMBERS


def _words(text: str) -> list[str]:
    """Return the words of a text without punctuation, function words and degrees ("°C")."""
    words = [plain_word(word) for word in text.split() if not word.startswith("°")]
    return [word for word in words if word and word.casefold() not in SMALL | _VAGUE]


def plain_word(word: str) -> str:
    """Remove the punctuation around a word."""
    return re.sub(r"^\W+|\W+$|['’]s$", "", word)
