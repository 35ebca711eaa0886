"""Clauses of a sentence, each with its subject."""

import re
from collections.abc import Iterator, Sequence

from attangent.compression.rules.verbs import DONE

# Words with which no subject begins that a question can name.
_NOT_SUBJECTS = (
    "after|afterwards|all|and|at|before|below|between|by|downstairs|during|everything|for|from|he|here|how|if|in|"
    "inside|it|its|last|most|nearby|next|no|nobody|not|nothing|on|or|outside|please|she|so|sometimes|that|then|there|"
    "their|these|they|this|those|to|today|upstairs|usually|we|what|when|where|whoever|with|within|without|you"
)
_VERBS = (
    "is|are|was|were|has|have|must|may|can|should|will|costs?|holds|weighs?|takes|lasts|opens|closes|starts|begins|"
    "ends|leaves|measures|works|pays|runs|sends|stands|hangs|lies|goes|needs|reads|answers|expires?|meets|removes"
)
_SUBJECT = re.compile(
    rf"^(?P<subject>(?!(?i:{_NOT_SUBJECTS})\b)[A-Z][\w'-]*(?: (?!(?:{_VERBS}|and|or) )[\w'/.-]+){{0,7}})"
    rf" (?:{_VERBS}) "
)
_TIME_AND_AGENT = re.compile(
    rf"^(?P<what>.+? (?:is|are|was|were) {DONE}) (?P<time>(?:in|on) [^,]+?) (?P<by>by [A-Z].*)$"
)
_ARTICLES = (
    "The", "A", "An", "Our", "Your", "Every", "Each",
    "Der", "Die", "Das", "Ein", "Eine", "Unser", "Unsere",
)  # fmt: skip
_COMMON_NOUN = re.compile(r"[a-z](?:s|tion|ment|ity|ing|age|ance|ness|ey)$")

SUBJECT = (
    rf"(?P<what>(?!(?i:{_NOT_SUBJECTS})\b)(?:(?:the|a|an|our|your|each|every)\b|[A-Z]|[a-z]+(?= costs?\b))"
    r"(?:(?! (?:is|are|was|were|has|have|can|may|must|then) )[^,;:()]){0,70}?(?<! and)(?<! or)(?<! but))"
)
"""Pattern of the subject with which a clause begins."""


def clauses_of(sentence: str) -> list[str]:
    """Split a sentence into clauses, each with its subject.

    Example:
        >>> clauses_of("The club has nine boats and is run by Greta Lomax.")
        ['The club has nine boats', 'The club is run by Greta Lomax']
    """
    joints = (
        "[,;]? (?:and|but) (?=(?:the|a|an|each|every) )",
        "[,;] while (?=(?:the|a|an|each|every) )",
        r", (?=the \w+ (?:is|are|was|were) )",
        "; ",
    )
    parts = re.split("|".join(joints), sentence)
    return [clause for part in parts for clause in _by_verb(part.strip().rstrip(".!;:"))]


def _by_verb(clause: str) -> Iterator[str]:
    """Split a clause before its further verbs and agents, and repeat the subject before each."""
    match = _SUBJECT.match(clause)
    if match is None:
        yield clause
        return
    first, *others = re.split(rf",? (?:and|but) (?=(?:{_VERBS}) )", clause)
    agent = _TIME_AND_AGENT.match(first)
    if agent:
        yield f"{agent['what']} {agent['time']}"
        yield f"{agent['what']} {agent['by']}"
    else:
        yield first
    for other in others:
        yield f"{match['subject']} {other}"


def with_subjects(sentences: Sequence[str]) -> list[str]:
    """Replace "It" and "They" at the beginning of sentences by the subject of the sentence before.

    Example:
        >>> with_subjects(["The mill was built in 1786.", "It has two wheels."])[1]
        'The mill has two wheels.'
    """
    replaced: list[str] = []
    subject = ""
    for sentence in sentences:
        opening, _, rest = sentence.partition(" ")
        if opening in ("It", "They") and subject:
            sentence = f"{subject} {rest}"
        match = _SUBJECT.match(sentence)
        subject = match["subject"] if match else ""
        replaced.append(sentence)
    return replaced


def in_question(subject: str) -> str:
    """Return the subject of a sentence as a question has it: common nouns in lower case.

    Example:
        >>> in_question("The lamp"), in_question("Flights"), in_question("Ann Lee")
        ('the lamp', 'flights', 'Ann Lee')
    """
    first, _, rest = subject.partition(" ")
    if first in _ARTICLES:
        return subject[0].lower() + subject[1:]
    common = rest[:1].islower() or (not rest and _COMMON_NOUN.search(first))
    return subject[0].lower() + subject[1:] if common and not first[1:2].isupper() else subject
