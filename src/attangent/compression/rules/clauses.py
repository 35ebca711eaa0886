"""Clauses of a sentence, each with its subject."""

import re
from collections.abc import Iterator, Sequence

from attangent.compression.matching import NUMBERS
from attangent.compression.rules.verbs import DONE

# Words with which no subject begins that a question can name.
_NOT_SUBJECTS = (
    "after|afterwards|all|and|at|before|below|between|by|downstairs|during|everything|for|from|he|here|how|if|in|"
    "inside|it|its|last|most|nearby|next|no|nobody|not|nothing|on|or|outside|please|she|so|sometimes|that|then|there|"
    "their|these|they|this|those|to|today|upstairs|usually|we|what|when|where|whoever|with|within|without|you"
)
_VERBS = (
    "is|are|was|were|has|have|must|may|can|should|will|costs?|holds|weighs?|takes|lasts|opens|closes|starts|begins|"
    "ends|leaves|measures|works|pays|runs|sends|stands|hangs|lies|goes|needs|reads|answers|expires?|meets|removes|"
    "comes|crosses|gets|lands|lives|moves|recalls|rehearses|sails|seats|sings?|sleeps|stays|stops|waits|walks|wears?"
)
_SUBJECT = re.compile(
    rf"^(?P<subject>(?!(?i:{_NOT_SUBJECTS})\b)[A-Z][\w'-]*(?: (?!(?:{_VERBS}|and|or) )[\w'/.-]+){{0,7}})"
    rf" (?:{_VERBS}) "
)
_TIME_AND_AGENT = re.compile(
    rf"^(?P<what>.+? (?:is|are|was|were) {DONE}) (?P<time>(?:in|on) [^,]+?) "
    r"(?P<by>by (?:(?:the|an?) [a-z]+ )?[A-Z].*)$"
)
_NOT_NOUNS = rf"{_VERBS}|and|at|by|down|for|from|in|into|of|off|on|or|out|over|the|than|to|under|up|with"
_RELATIVE = re.compile(
    r"^(?P<main>(?:.*?[ (])?)"
    rf"(?P<noun>(?:[Tt]he|[Aa]n?|[Oo]ur)(?: (?!(?:{_NOT_NOUNS})[ ,])[a-z'-]+){{1,3}}(?: [A-Z][\w'-]+)*|"
    r"(?:(?:St|Dr|Mr|Mrs|Ms)\.? )?(?!The )[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*), "
    rf"(?:(?:which|who) (?=(?:{_VERBS}|[a-z]+s) )|whose (?P<owned>(?!name)[a-z]+) (?=is |are ))"
    r"(?P<rest>[^,]+)(?:, (?P<after>(?!(?:and|but|or|so|because|unless|if|when|provided|the|an?) ).+))?$"
)
_QUANTITY = rf"(?:\d[\d.,]*|(?i:one|{'|'.join(NUMBERS)}))"
_TWO_COUNTS = re.compile(
    rf"^(?P<start>[A-Z][^,;]* (?:has|have|holds?|needs?)) (?P<first>{_QUANTITY} [a-z-]+) and "
    rf"(?P<second>{_QUANTITY} (?:[a-z-]+ )?[a-z-]+)$"
)
_TWO_VALUES = re.compile(
    r"^(?P<what>[A-Z][^,;]*?) (?P<verb>is|are|costs?|lasts?|(?:may|can) (?:cost|last))"
    rf" (?P<first>(?:up to )?{_QUANTITY} [^,;]+), (?:or|and|but)(?: only)? "
    rf"(?P<second>(?:up to )?{_QUANTITY} \S+) (?P<case>(?:for|in|with|on) [^,;]+)$"
)
_FRONT = re.compile(
    r"^(?P<front>(?:In|On|At|During|After) [^,;]{2,40}?)(?<! of)(?<! in)(?<! on)(?<! at)(?<! for)(?<! to)"
    r"(?<! by)(?<! with)(?<! from)(?<! and),? (?P<main>(?:the|an?|our|your) (?!and ).+)$"
)
_ARTICLES = (
    "The", "A", "An", "Our", "Your", "Every", "Each",
    "Der", "Die", "Das", "Ein", "Eine", "Unser", "Unsere",
)  # fmt: skip
_ADVERB = re.compile(r"^(?:Today|Now|Nowadays|Currently|Usually|However),? (?P<next>[a-z])(?=\w)")
_COMMON_NOUN = re.compile(
    r"[a-z](?:s|tion|ment|ity|ing|age|ance|ness|ey)$|"
    r"^(?:Bread|Breakfast|Coffee|Dinner|Dirt|Food|Fuel|Heat|Honey|Lunch|Mail|Meat|Milk|Mud|Oil|Paper|Power|Rent|Rubbish|"
    r"Sand|Snow|Supper|Tea|Waste|Water|Wine|Wood)$"
)

SUBJECT = (
    rf"(?P<what>(?!(?i:{_NOT_SUBJECTS})\b)(?:(?:the|a|an|our|your|each|every)\b|[A-Z]|"
    r"[a-z]+(?= (?:costs?|(?:can|may|must) be)\b))"
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
    # "The fee is 24 pounds, and it is collected by Ann" says the same as without "it".
    sentence = re.sub(rf",? (?:and|where) (?:it|they) (?=(?:{_VERBS}) )", " and ", sentence)
    parts = [part for whole in _by_relative(sentence) for part in re.split("|".join(joints), whole)]
    return [
        clause
        for part in parts
        for verb in _by_verb(part.strip().rstrip(".!;:"))
        for clause in _by_number(verb)
    ]


def _by_relative(sentence: str) -> Iterator[str]:
    """Split a sentence at a relative clause, which gets the noun before it as its subject.

    Example:
        >>> list(_by_relative("The orange badge, which is valid for a year, costs nothing"))
        ['The orange badge costs nothing', 'The orange badge is valid for a year']
    """
    match = _RELATIVE.match(sentence)
    if match is None or (match["main"] and match["after"]):
        yield sentence
        return
    noun = re.sub("^(?:an?|the) ", "the ", match["noun"], flags=re.IGNORECASE)
    noun = noun[0].upper() + noun[1:]
    yield f"{match['main']}{match['noun']} {match['after'] or ''}".strip()
    owned = f"The {match['owned']} of {in_question(noun)}"
    yield f"{owned if match['owned'] else noun} {match['rest']}"


def _by_number(clause: str) -> Iterator[str]:
    """Split a clause with two numbers: "has two doors and one gate", "is 24 pounds, or 10 for students"."""
    counts = _TWO_COUNTS.match(clause)
    values = _TWO_VALUES.match(clause)
    if counts:
        yield f"{counts['start']} {counts['first']}"
        yield f"{counts['start']} {counts['second']}"
    elif values:
        yield f"{values['what']} {values['verb']} {values['first']}"
        yield f"{values['what']} {values['case']} {values['verb']} {values['second']}"
    else:
        yield clause


def front_of(clause: str) -> tuple[str, str]:
    """Return the circumstance with which a clause begins, and the clause without it.

    Example:
        >>> front_of("In an emergency the helicopter lands here")
        ('in an emergency', 'The helicopter lands here')
    """
    match = _FRONT.match(clause)
    if match is None:
        return "", clause
    return match["front"][0].lower() + match["front"][1:], match["main"][0].upper() + match["main"][1:]


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
        sentence = _ADVERB.sub(lambda match: match["next"].upper(), sentence)
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
