"""Rules on German sentences."""

import re
from collections import Counter
from collections.abc import Sequence

from attangent.compression.rules.rule import Rule, rule

_SUBJECT = r"^(?P<what>(?:Der|Die|Das|Ein|Eine|Unser|Unsere)\b[^,;:()]{2,70}?)"

GERMAN: Sequence[Rule] = (
    rule(_SUBJECT + r" (?:kostet|kosten) (?P<answer>.*\d.*|nichts)$", "Was kostet {what}?"),
    rule(_SUBJECT + r" (?:heißt|heißen) (?P<answer>.+)$", "Wie heißt {what}?"),
    rule(_SUBJECT + r" beträgt (?P<answer>.*\d.*)$", "Wie hoch ist {what}?"),
    rule(_SUBJECT + r" dauert (?P<answer>.+)$", "Wie lange dauert {what}?"),
    rule(_SUBJECT + r" (?:beginnt|öffnet) (?:um|am|im) (?P<answer>.+)$", "Wann beginnt {what}?"),
    rule(_SUBJECT + r" ist (?P<answer>[A-ZÄÖÜ]\w+ [A-ZÄÖÜ]\w+)$", "Wer ist {what}?"),
    rule(_SUBJECT + r" (?:liegt|steht|ist) (?:in|im|am|auf|an|neben) (?P<answer>.+)$", "Wo ist {what}?"),
    rule(_SUBJECT + r" ist (?P<answer>.*\d.*)$", "Was ist {what}?"),
)
"""Rules from specific to general."""


def is_german(text: str) -> bool:
    """Return whether a text has more German than English function words."""
    words = Counter(re.findall(r"\w+", text.casefold()))
    german = sum(words[word] for word in ("der", "die", "das", "und", "ist", "nicht", "ein", "mit", "für"))
    return german > sum(words[word] for word in ("the", "and", "is", "of", "to", "with", "for"))
