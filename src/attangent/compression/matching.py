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
# Function words in English and German.
SMALL = frozenset((
    "a", "aber", "about", "after", "all", "alle", "als", "also", "always", "am", "an", "and", "any",
    "are", "as", "at", "auch", "auf", "aus", "be", "been", "before", "bei", "beim", "beside", "between",
    "bis", "but", "by", "can", "could", "das", "dem", "den", "der", "des", "did", "die", "do", "does",
    "during", "each", "ein", "eine", "einem", "einen", "einer", "eines", "either", "er", "es", "every",
    "everybody", "everyone", "for", "from", "für", "gegen", "haben", "had", "has", "hat", "have", "he",
    "her", "his", "how", "i", "if", "ihr", "im", "in", "into", "is", "ist", "it", "its", "itself", "jede",
    "jeder", "jedes", "kann", "können", "man", "may", "might", "mit", "more", "most", "muss", "must",
    "müssen", "nach", "nicht", "no", "noch", "nor", "not", "nur", "oder", "of", "off", "on", "once",
    "one", "only", "or", "other", "our", "out", "over", "own", "per", "please", "sein", "shall", "she",
    "should", "sich", "sie", "since", "sind", "so", "some", "sowie", "such", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "through", "to", "um", "und",
    "under", "unless", "until", "up", "us", "vom", "von", "vor", "war", "waren", "was", "we", "werden",
    "were", "what", "when", "where", "whether", "which", "while", "who", "whoever", "whom", "whose",
    "will", "wir", "wird", "with", "within", "without", "would", "you", "your", "zu", "zum", "zur",
    "über",
))  # fmt: skip
# Last words of names that are easily guessed, and units.
GENERIC = frozenset((
    "city", "dr", "mr", "mrs", "ms", "prof", "town",
    "bridge", "building", "center", "centre", "club", "company", "department", "dollar", "euro", "euros",
    "franken", "hall", "haus", "hotel", "house", "lake", "library", "office", "platz", "prozent", "river",
    "road", "room", "school", "square", "straße", "street", "team", "uhr",
))  # fmt: skip
# A number with its decimals, a number joined to letters (R290), or a word.
_TOKEN = re.compile(r"\d+(?:[.,:]\d+)*(?![\w])|\w+(?:['’]\w+)?|[%€$£]")
# Words that deny, in English and German. A question with this answer expects one of them.
DENIAL = "no|not|never|cannot|nobody|none|forbidden|prohibited|banned|nein|nicht|kein|keine|nie|verboten"


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


def in_words(expected: str) -> str:
    """Return expected words as a reader would write them.

    Example:
        >>> in_words("Dana|Whitfield"), in_words(DENIAL)
        ('Dana or Whitfield', 'no')
    """
    return "no" if expected == DENIAL else " or ".join(expected.split("|"))


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
