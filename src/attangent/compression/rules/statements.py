"""Rules on English statements: who, what, when, where and how many."""

import re
from collections.abc import Sequence

from attangent.compression.matching import NUMBERS
from attangent.compression.rules.answers import NUMBER, TIME
from attangent.compression.rules.clauses import SUBJECT
from attangent.compression.rules.rule import Ask, Form, Match, Rule, answer_in, filled, rule
from attangent.compression.rules.verbs import DONE, base_form, past_tense, third_person

_NUMBER_WORDS = "|".join(NUMBERS)
_COUNT = rf"(?P<answer>\d[\d,.]*|(?i:{_NUMBER_WORDS})) (?P<things>[a-z-]+s|people|children)\b"
_ABOUT = "(?:at most|at least|up to|about)"
_MONEY = r"(?:[$€£]|\b(?:euros?|dollars?|pounds?|cents?|crowns?|francs?|pence)\b)"
_MEANS = r"(?i:(?:e-?mail|phone|post|letter|card|hand|cash|bank|train|bus)\b)"
_PLACES = "in|on|at|under|behind|next to|above|beside|near|across|between|opposite"
_PERSON = re.compile(r"^((Mr|Mrs|Ms|Dr|Prof)\. |Professor |Doctor )?[A-Z][\w'-]+( [A-Z][\w'-]+){1,2}$")
_BE = "(?P<verb>is|are|was|were)"
_MAY_BE = r"(?P<verb>is|are|was|were|(?:must|may|can|should|will) be)"
_PASSIVE = "{verb} {what} {be} {done}"


def _cost(match: Match) -> Form | None:
    # "The hall holds 120 people and costs 65 euros": the words before the verb are no subject.
    if re.search(r"\d", match["what"]) or match["what"].endswith(" and"):
        return None
    return filled("How much {do} {what} cost?", match), answer_in(match)


def _by_whom(match: Match) -> Form:
    name = re.match(r"(?:the )?(?:[A-Z][\w'-]*\.? ?|aunt |uncle )+", match["answer"])
    return _who(match), name[0] if name else answer_in(match)


def _who(match: Match) -> str:
    """Ask for the agent of a passive clause: "Who reviews the code?" if it is reviewed by somebody."""
    verb, _, be = match["verb"].partition(" ")
    participle, _, particle = match["done"].partition(" ")
    base = base_form(participle)
    if not base:
        return filled(f"Who {_PASSIVE} by?", match)
    if be:
        active = f"{verb} {base}"
    else:
        active = past_tense(participle) if verb in ("was", "were") else third_person(base)
    return filled(f"Who {active} {{what}} {particle}?", match)


def _where(match: Match) -> Form | None:
    verb = match["verb"]
    be = verb if verb in ("was", "were") else "are" if verb in ("are", "stand", "hang", "lie") else "is"
    if re.match(TIME, match["answer"]):
        return filled(f"When {be} {{what}}?", match), match["answer"]
    if re.match(NUMBER, match["answer"]):
        return None
    return filled(f"Where {be} {{what}}?", match), answer_in(match)


def _is(match: Match) -> Form | None:
    answer = re.split(r" (?:with|of|for|to|in|that) ", answer_in(match))[0]
    number = re.match(NUMBER, answer)
    if number and re.search(_MONEY, answer):
        return filled("How much {verb} {what}?", match), answer
    if not (number or re.match(r"(?:the|a|an)\b|[A-Z]", answer)):
        return None
    opening = "Who" if _PERSON.match(answer) else "What"
    if not number and re.match(TIME, answer):
        opening = "When"
    return filled(opening + " {verb} {what}?", match), answer


def _to_whom(match: Match) -> Form:
    receiver = re.split(r" (?:in|at|on) ", match["answer"])[0]
    if match["verb"].startswith("go"):
        return filled("Who {do} {what} go to?", match), receiver
    return filled("Who {verb} {what} {be} to?", match), receiver


def _statement(rest: str, ask: str | Ask) -> Rule:
    """Return a rule on clauses that have a subject and then `rest`."""
    return rule(f"^{SUBJECT} {rest}$", ask)


STATEMENTS: Sequence[Rule] = (
    rule(
        rf"(?i:^(?:up to |at most |at least |about |only )?){_COUNT} (?P<rest>[^,;]{{8,80}}).*$",
        "How many {things} {rest}?",
    ),
    _statement(rf"(?P<verb>costs?) (?P<answer>.*\d.*|.*\b(?:{_NUMBER_WORDS})\b.*|nothing.*)", _cost),
    _statement(rf"{_BE} called (?P<answer>.+)", "What {verb} {what} called?"),
    _statement(rf"{_BE} {DONE} by (?P<answer>(?:the|a|an) .+|[A-Z].+)", _by_whom),
    _statement(rf"(?P<verb>was|were) {DONE} (?:in|on) (?:\w+ )?(?P<answer>\d{{4}})\b.*", f"When {_PASSIVE}?"),
    _statement(rf"(?P<verb>is|are|was|were|stands?|hangs?|lies?) (?:{_PLACES}) (?P<answer>.+)", _where),
    _statement(rf"{_BE} {DONE} (?P<answer>\d+|{_NUMBER_WORDS}) times\b.*", f"How many times {_PASSIVE}?"),
    _statement(rf"(?P<verb>has|have|holds|carries) {_COUNT}.*", "How many {things} {do} {what} have?"),
    _statement(
        r"(?P<verb>starts|begins|opens|closes|leaves|ends|sails|meets|arrives|departs)(?: .*)?? "
        rf"(?:at|on|from|in) (?P<answer>{TIME}.*)",
        "When does {what} {base}?",
    ),
    _statement(rf"takes (?P<answer>{NUMBER}.*)", "How long does {what} take?"),
    _statement(
        rf"{_BE} {DONE} (?P<answer>(?:every|once|twice) .+?)(?: (?:by|in|at|on|with) .*)?",
        f"How often {_PASSIVE}?",
    ),
    _statement(rf"{_MAY_BE} {DONE} for (?P<answer>{NUMBER}.*)", f"For how long {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>{_MEANS}.*)", f"How {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>.*{_MONEY}.*)", f"By how much {_PASSIVE}?"),
    _statement(
        rf"{_MAY_BE} {DONE} within (?P<answer>(?:\d+|{_NUMBER_WORDS}) (?P<units>(?:working )?[a-z]+s)\b.*)",
        f"Within how many {{units}} {_PASSIVE}?",
    ),
    _statement(rf"{_MAY_BE} {DONE} within (?P<answer>{TIME}.*)", f"How soon {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} from (?P<answer>{TIME}.*)", f"From when {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} until (?P<answer>{TIME}.*)", f"Until when {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>{TIME}.*)", f"By when {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} (?:before|after|on|in|at) (?P<answer>{TIME}.*)", f"When {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>.+)", lambda match: (_who(match), answer_in(match))),
    _statement(
        rf"{_BE} (?P<done>written) (?:{_PLACES}) (?P<answer>(?!{NUMBER}).+)",
        "What {verb} {what} written in?",
    ),
    # "Jury service is paid in full" names no place.
    _statement(rf"{_BE} {DONE} (?:{_PLACES}) (?P<answer>(?!full$|{NUMBER}|{TIME}).+)", f"Where {_PASSIVE}?"),
    _statement(
        r"(?P<verb>goe?s?|(?:is|are|must be|may be) (?:sent|given|returned|reported|handed|brought|shown|"
        r"charged|lent|paid|mailed)) to (?P<answer>.+)",
        _to_whom,
    ),
    _statement(
        r"(?P<verb>[a-z]+s)(?P<particle>(?: off| on| out| up)?) (?:after|at|on|from|in) "
        rf"(?P<answer>{TIME}.*)",
        "When does {what} {base} {particle}?",
    ),
    _statement(
        r"(?P<modal>must|may|can|should|will|shall) (?P<done>[a-z]+(?: [a-z]+)?)"
        rf"(?: {_ABOUT})? {_COUNT}(?P<before> before| ahead| in advance)?.*",
        "How many {things} {before} {modal} {what} {done}?",
    ),
    _statement(rf"(?P<verb>[a-z]+s)(?: {_ABOUT})? {_COUNT}.*", "How many {things} does {what} {base}?"),
    _statement(r"(?P<verb>raises|returns|requires|uses) (?P<answer>.+)", "What does {what} {base}?"),
    _statement(
        rf"{_BE} (?P<answer>(?:\d[\d.,]*|{_NUMBER_WORDS}) \w+) "
        r"(?P<adjective>long|wide|deep|high|tall|thick|heavy|old|far)\b.*",
        "How {adjective} {verb} {what}?",
    ),
    _statement(rf"{_BE} (?P<answer>.+)", _is),
)
"""Rules from specific to general."""
