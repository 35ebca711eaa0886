"""Rules on English statements: who, what, when, where and how many."""

import re
from collections.abc import Sequence

from attangent.compression.matching import NUMBERS
from attangent.compression.rules.answers import DURATION, NUMBER, TIME
from attangent.compression.rules.clauses import SUBJECT
from attangent.compression.rules.rule import Ask, Form, Match, Rule, answer_in, filled, rule
from attangent.compression.rules.verbs import DONE, base_form, past_tense, third_person

_NUMBER_WORDS = "|".join(NUMBERS)
_THINGS = (
    r"(?P<things>(?!thirds|quarters|halves)[a-z-]+(?<!s)s|people|children|"
    r"(?!(?:and|at|for|in|of|or|per|to)\b)[a-z-]+ [a-z-]+(?<!s)s)\b"
)
_COUNT = rf"(?P<answer>\d[\d,.]*|(?i:{_NUMBER_WORDS})) {_THINGS}"
_ABOUT = "(?:at most|at least|up to|about)"
_MONEY = r"(?:[$€£]|\b(?:euros?|dollars?|pounds?|cents?|crowns?|francs?|pence)\b)"
_MEANS = r"(?i:(?:e-?mail|phone|post|letter|card|hand|cash|bank|train|bus)\b)"
# "Jury service is paid in full" names no place: without an article, only names, numbers and plurals do.
_IN_PLACE = (
    r"(?:(?:in|on|at) "
    r"(?=(?:front of|the|an?|our|your|his|her|its|their|every|each|both|[a-z]+s)\b|(?:[a-z]+ )?[A-Z\d/])|"
    r"(?:under|behind|next to|above|beside|near|across|between|opposite) )"
)
_PERSON = re.compile(r"^((Mr|Mrs|Ms|Dr|Prof)\. |Professor |Doctor )?[A-Z][\w'-]+( [A-Z][\w'-]+){1,2}$")
_BE = "(?P<verb>is|are|was|were)"
_MAY_BE = r"(?P<verb>is|are|was|were|(?:must|may|can|should|will) be)"
# A person, without the time and place of the deed.
_WHOM = (
    r"(?P<answer>.+?)(?: (?:in|at|on|within|after|before|during|until|from|for|with|every|unless|if)\b.*)?"
)
_PASSIVE = "{verb} {what} {be} {done}"


def _cost(match: Match) -> Form | None:
    # "Up to 20 people costs 65 euros": the words before the verb are no subject.
    if re.search(r"\d", match["what"]):
        return None
    return filled("How much {do} {what} cost?", match), answer_in(match)


def _by_whom(match: Match) -> Form:
    """Ask for the agent of a passive clause: "Who reviews the code?" if somebody reviews it."""
    return _active_question(match), answer_in(match)


def _active_question(match: Match) -> str:
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


def _where(match: Match) -> Form:
    verb = match["verb"]
    be = verb if verb in ("was", "were") else "are" if verb in ("are", "stand", "hang", "lie") else "is"
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
    _statement(rf"{_BE} (?:in|on|at) (?P<answer>{TIME}.*)", "When {verb} {what}?"),
    _statement(
        rf"(?P<verb>is|are|was|were|stands?|hangs?|lies?) {_IN_PLACE}(?P<answer>(?!{NUMBER}|{TIME}).+)",
        _where,
    ),
    _statement(rf"{_BE} {DONE} (?P<answer>\d+|{_NUMBER_WORDS}) times\b.*", f"How many times {_PASSIVE}?"),
    _statement(
        r"(?P<verb>starts|begins|opens|closes|leaves|ends|sails|meets|arrives|departs)(?: .*)?? "
        rf"(?:at|on|from|in) (?P<answer>{TIME}.*)",
        "When does {what} {base}?",
    ),
    _statement(rf"takes (?P<answer>{DURATION}.*)", "How long does {what} take?"),
    _statement(
        rf"{_BE} {DONE} (?P<answer>(?:every|once|twice) .+?)(?: (?:by|in|at|on|with) .*)?",
        f"How often {_PASSIVE}?",
    ),
    _statement(rf"{_MAY_BE} {DONE} for (?:{_ABOUT} )?(?P<answer>{DURATION}.*)", f"For how long {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} for (?P<answer>(?={NUMBER}).*{_MONEY}.*)", f"For how much {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>{_MEANS}.*)", f"How {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>(?={NUMBER}).*{_MONEY}.*)", f"By how much {_PASSIVE}?"),
    _statement(
        rf"{_MAY_BE} {DONE} within (?P<answer>(?:\d+|{_NUMBER_WORDS}) (?P<units>(?:working )?[a-z]+s)\b.*)",
        f"Within how many {{units}} {_PASSIVE}?",
    ),
    _statement(rf"{_MAY_BE} {DONE} within (?P<answer>{TIME}.*)", f"How soon {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} from (?P<answer>{TIME}.*)", f"From when {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} until (?P<answer>{TIME}.*)", f"Until when {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by (?P<answer>{TIME}.*)", f"By when {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} (?:before|after|on|in|at) (?P<answer>{TIME}.*)", f"When {_PASSIVE}?"),
    _statement(rf"{_MAY_BE} {DONE} by {_WHOM}", _by_whom),
    _statement(rf"{_BE} (?P<done>written) in (?P<answer>(?!{NUMBER}).+)", "What {verb} {what} written in?"),
    _statement(rf"{_BE} {DONE} {_IN_PLACE}(?P<answer>(?!{NUMBER}|{TIME}).+)", f"Where {_PASSIVE}?"),
    _statement(rf"(?P<verb>go|goes) to {_WHOM}", "Who {do} {what} go to?"),
    _statement(
        r"(?P<verb>is|are|must be|may be) (?P<done>sent|given|returned|reported|handed|brought|shown|charged|"
        rf"lent|paid|mailed) to {_WHOM}",
        f"Who {_PASSIVE} to?",
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
    _statement(
        rf"(?P<verb>[a-z]+s|get|have|hold|need|read|sing|weigh|contain|carry)"
        rf"(?: {_ABOUT})? {_COUNT}(?<! times).*",
        "How many {things} {do} {what} {base}?",
    ),
    _statement(r"(?P<verb>raises|returns|requires|uses) (?P<answer>.+)", "What does {what} {base}?"),
    _statement(
        rf"{_BE} (?P<answer>(?:\d[\d.,]*|{_NUMBER_WORDS}) \w+) "
        r"(?P<adjective>long|wide|deep|high|tall|thick|heavy|old|far)\b.*",
        "How {adjective} {verb} {what}?",
    ),
    _statement(rf"{_BE} (?P<answer>.+)", _is),
)
"""Rules from specific to general."""
