"""Whether an answer contains expected words or values: whole words, and numbers by their value."""

import re

NUMBERS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty",
    "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "noon", "midnight",
)  # fmt: skip
_VALUES = {
    **{word: str(value) for value, word in enumerate(NUMBERS[:19], 2)},
    **{word: str(10 * value) for value, word in enumerate(NUMBERS[19:26], 3)},
    "hundred": "100",
    "thousand": "1000",
    "noon": "12",
    "midnight": "24",
    "zwei": "2",
    "drei": "3",
    "vier": "4",
    "fünf": "5",
    "sechs": "6",
    "sieben": "7",
    "acht": "8",
    "neun": "9",
    "zehn": "10",
    "elf": "11",
    "zwölf": "12",
    "zwanzig": "20",
    "dreißig": "30",
}
# A number with its decimals, a number joined to letters (R290), or a word.
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*(?![\w])|\w+(?:['’]\w+)?|[%€$£]")
# Words that deny, in English and German. A question with this answer expects one of them.
DENIAL = "no|not|never|cannot|nobody|none|nein|nicht|kein|keine|nie"


def holds_words(text: str, expected: str) -> bool:
    """Return whether a text contains the expected words, whole and in any case.

    Numbers match by value: "four" is 4, "1,200" is 1200, and "3" is not in "3.2". Alternatives are separated
    by "|".

    Example:
        >>> holds_words("It weighs 3.2 kilograms.", "3"), holds_words("Four weeks.", "4")
        (False, True)
    """
    tokens = _tokens(text)
    return any(_contains(tokens, _tokens(words)) for words in expected.split("|"))


def _contains(tokens: list[str], wanted: list[str]) -> bool:
    last = len(tokens) - len(wanted)
    return bool(wanted) and any(tokens[i : i + len(wanted)] == wanted for i in range(last + 1))


def _tokens(text: str) -> list[str]:
    """Return the words of a text; numbers in one spelling."""
    text = text.casefold().replace("’", "'")
    words = [re.sub(r"'s$", "", token) for token in _TOKEN.findall(re.sub(r"(\w)n't\b", r"\1 not", text))]
    return [_VALUES.get(word) or _number(word) for word in words]


def _number(word: str) -> str:
    """Return a number without separators of thousands; "1,50" and "1.50" are the same."""
    if not re.fullmatch(r"\d+(?:[.,]\d+)+", word):
        return word
    if re.fullmatch(r"\d{1,3}([.,])\d{3}(\1\d{3})*", word):
        return re.sub(r"[.,]", "", word)
    return word.replace(",", ".")
