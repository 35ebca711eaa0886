"""English sentences as the questions that a reader would ask, each with the part that answers it."""

import re
from collections.abc import Callable, Iterator, Sequence

_WHAT = (
    r"^(?P<what>(?!{no}\b)(?:(?:the|a|an|its|our|your)\b|[A-Z]|[a-z]+(?= costs?\b))"
    r"(?:(?! (?:is|are|was|were|has|have|can|may|must) )[^,;:()]){{0,70}}?)"
)
_NOT_SUBJECTS = (
    "after|afterwards|all|and|at|before|below|by|downstairs|each|every|everything|for|from|he|here|how|if|in|"
    "inside|it|last|most|nearby|next|no|nobody|not|on|or|outside|please|she|so|sometimes|that|then|there|"
    "these|they|this|those|to|today|upstairs|usually|we|what|when|where|whoever|with|you"
)
_PLACES = "in|on|at|under|behind|next to|above|beside|near|across|between|opposite"
_DOES = {
    "starts": "start", "begins": "begin", "opens": "open", "closes": "close", "leaves": "leave",
    "ends": "end", "sails": "sail", "meets": "meet", "arrives": "arrive", "departs": "depart",
}  # fmt: skip
NUMBERS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty", "forty",
    "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "noon", "midnight",
)  # fmt: skip
_NUMBER = re.compile(rf"^(\W?\d|({'|'.join(NUMBERS)})\b)", re.IGNORECASE)
_TIME = re.compile(
    rf"^(\W?\d|({'|'.join(NUMBERS)}|half|quarter|mon|tues|wednes|thurs|fri|satur|sun|january|february|march|"
    r"april|may|june|july|august|september|october|november|december|weekdays|spring|summer|autumn|winter|"
    r"the (first|second|third|last|morning|evening|afternoon))(days?\b|s\b|\b))",
    re.IGNORECASE,
)
_MONEY = re.compile(r"[$€£]|\b(euros?|dollars?|pounds?|cents?|crowns?|francs?|pence)\b")
_PERSON = re.compile(r"^((Mr|Mrs|Ms|Dr|Prof)\. |Professor |Doctor )?[A-Z][\w'-]+( [A-Z][\w'-]+){1,2}$")

_LONGEST = 600
"""Letters of a sentence; what is longer is no sentence, and patterns would take long on it."""

Match = re.Match[str]
Asked = tuple[str, str]
"""A question and the words that answer it."""


def asked_forms(sentence: str) -> Iterator[Asked]:
    """The questions that a sentence answers, clause by clause; none for what is not understood."""
    if len(sentence) > _LONGEST:
        return
    for clause in _clauses(sentence):
        for pattern, ask in _RULES:
            found = pattern.match(clause)
            asked = ask(found) if found else None
            if asked:
                yield asked
                break


def _clauses(sentence: str) -> list[str]:
    """A sentence, cut where another thing is told: "the net is called A and the word is B"."""
    parts = re.split(
        r",? (?:and|but|while) (?=(?:the|a|an|its) )|, (?=the \w+ (?:is|are|was|were) )", sentence
    )
    return [part.strip().rstrip(".!;:") for part in parts]


def _subject(found: Match) -> str:
    what = found["what"]
    first = what.split()[0]
    return what[0].lower() + what[1:] if first in ("The", "A", "An", "Its", "Our", "Your") else what


def _answer(found: Match) -> str:
    return re.split(r",| and (?!\d)| who | which | where | between | because ", found["answer"])[0]


def _cost(found: Match) -> Asked:
    do = "do" if found["verb"] == "cost" else "does"
    return f"How much {do} {_subject(found)} cost?", _answer(found)


def _called(found: Match) -> Asked:
    return f"What {found['verb']} {_subject(found)} called?", _answer(found)


def _by_whom(found: Match) -> Asked:
    name = re.match(r"(?:the )?(?:[A-Z][\w'-]*\.? ?|aunt |uncle )+", found["answer"])
    return f"By whom {found['verb']} {_subject(found)} {found['done']}?", name[0] if name else _answer(found)


def _when_done(found: Match) -> Asked:
    return f"When {found['verb']} {_subject(found)} {found['done']}?", found["answer"]


def _where(found: Match) -> Asked:
    asked = "When" if _TIME.match(found["answer"]) else "Where"
    verb = found["verb"] if found["verb"] in ("is", "are", "was", "were") else "is"
    return f"{asked} {verb} {_subject(found)}?", _answer(found)


def _how_many(found: Match) -> Asked:
    do = "do" if found["verb"] == "have" else "does"
    return f"How many {found['things']} {do} {_subject(found)} have?", found["answer"]


def _when_does(found: Match) -> Asked | None:
    if not _TIME.match(found["answer"]):
        return None
    return f"When does {_subject(found)} {_DOES[found['verb']]}?", _answer(found)


def _how_long(found: Match) -> Asked | None:
    return (
        (f"How long does {_subject(found)} take?", _answer(found)) if _NUMBER.match(found["answer"]) else None
    )


def _is(found: Match) -> Asked | None:
    answer = _answer(found)
    first = answer.split()[0] if answer.split() else ""
    if _MONEY.search(answer) and _NUMBER.match(answer):
        return f"How much {found['verb']} {_subject(found)}?", answer
    if not (first in ("the", "a", "an") or first[:1].isupper() or _NUMBER.match(answer)):
        return None
    who = "Who" if _PERSON.match(answer) else "What"
    return f"{who} {found['verb']} {_subject(found)}?", answer


def _rule(
    rest: str, ask: Callable[[Match], Asked | None]
) -> tuple[re.Pattern[str], Callable[..., Asked | None]]:
    no = f"(?i:{_NOT_SUBJECTS})"
    return re.compile(_WHAT.format(no=no) + " " + rest + "$"), ask


_BE = "(?P<verb>is|are|was|were)"
_DONE = r"(?P<done>\w+ed|built|made|kept|held|taught|given|run|sold|led|written|drawn|bought|found|grown|won)"
_RULES: Sequence[tuple[re.Pattern[str], Callable[..., Asked | None]]] = (
    _rule(r"(?P<verb>costs?) (?P<answer>.*\d.*|.*\b(?:" + "|".join(NUMBERS) + r")\b.*|nothing.*)", _cost),
    _rule(rf"{_BE} called (?P<answer>.+)", _called),
    _rule(rf"{_BE} {_DONE} by (?P<answer>(?:the \w+ )?[A-Z].+)", _by_whom),
    _rule(rf"(?P<verb>was|were) {_DONE} (?:in|on) (?:\w+ )?(?P<answer>\d{{4}})\b.*", _when_done),
    _rule(rf"(?P<verb>is|are|was|were|stands?|hangs?|lies?) (?:{_PLACES}) (?P<answer>.+)", _where),
    _rule(rf"{_BE} (?:kept|held|served|found) (?:{_PLACES}) (?P<answer>.+)", _where),
    _rule(
        rf"(?P<verb>has|have|holds|carries) (?P<answer>\d[\d,.]*|{'|'.join(NUMBERS)}) "
        r"(?P<things>[a-z-]+s)\b.*",
        _how_many,
    ),
    _rule(rf"(?P<verb>{'|'.join(_DOES)}) (?:.* )??(?:at|on|from|in) (?P<answer>.+)", _when_does),
    _rule(r"takes (?P<answer>.+)", _how_long),
    _rule(rf"{_BE} (?P<answer>.+)", _is),
)
