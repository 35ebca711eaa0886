"""Rules on what people and things do: where, for how long, how often and for how much."""

import re
from collections.abc import Sequence

from attangent.compression.rules.answers import DURATION, NUMBER, TIME
from attangent.compression.rules.clauses import SUBJECT
from attangent.compression.rules.rule import Ask, Form, Match, Rule, answer_in, filled, rule
from attangent.compression.rules.verbs import DONE, third_person

_ABOUT = r"(?:(?:at most|at least|up to|about) )?"
_BASES = (
    "arrive", "board", "camp", "cross", "dock", "eat", "fly", "gather", "graze", "grow", "land", "last",
    "live", "meet", "moor", "nest", "park", "pause", "play", "practise", "rehearse", "rest", "run", "sail",
    "sing", "sit", "sleep", "stay", "stop", "train", "wait", "walk", "work",
)  # fmt: skip
_ACTS = "|".join([*_BASES, *map(third_person, _BASES)])
_ADVERB = r"(?:(?:also|always|currently|normally|now|usually) )?"
_MODAL = "(?P<modal>must|may|can|should|will)"
_PRICE = rf"(?P<answer>(?={NUMBER})\W?[\w.,]+ (?:euros?|dollars?|pounds?|cents?|crowns?|francs?|pence)\b)"
# Without an article, only names say a place: "in pairs" and "at once" do not.
_PLACE = (
    r"(?:in|on|at|under|behind|next to|above|beside|near|along|opposite) "
    rf"(?P<answer>(?!{TIME}|{NUMBER})(?:(?:the|an?|our|your|his|her|its|their) [a-z]|[A-Z])[^,;]*)"
)
_ORIGINS = "pumped|collected|bought|fetched|drawn|picked up|brought|delivered|imported|borrowed|ordered|hired"
_NOT_PLACE = re.compile(
    r"^(?:the|an?|our|your|his|her|its|their) (?:\w+ )?(?:time|day|week|month|year|event|case|way|basis|end|"
    r"front|background|dark|rain|wind|sun|same|open|\w+days?|morning|afternoon|evening|night|season|summer|winter|"
    r"own|lead|tour|trial|turn|cost|risk)\b"
)
_FINITE = re.compile(r" (?:is|are|was|were|has|have|must|may|can|if|when|unless|whether|then) ")
_PLURAL = re.compile(r"(?:[^s]s|people|children|men|women|staff)$")
_CASE = re.compile(" (?:at|for|from|in|of|on|over|to|under|with|without) ")
_RELATIVE = re.compile(r" (?:that|who|which|whose|if|when) ")


def _is_clear(match: Match) -> bool:
    """Return whether the subject agrees with its verb and names what it means."""
    what = match["what"]
    verb = match.groupdict().get("verb", "")
    # "The largest" is the largest of what the sentence before says.
    if _RELATIVE.search(f" {what} ") or re.fullmatch(r"(?i:the) \w+est", what):
        return False
    return not verb or verb.endswith("s") or bool(_PLURAL.search(_CASE.split(what)[0]))


def _asked(template: str) -> Ask:
    """Return a function that fills a template if the subject is clear."""

    def ask(match: Match) -> Form | None:
        if not _is_clear(match):
            return None
        question = filled(template, match)
        return (question, answer_in(match)) if question else None

    return ask


def _asked_where(template: str) -> Ask:
    """Return a function that asks for a place if the answer is one."""
    ask = _asked(template)

    def ask_where(match: Match) -> Form | None:
        form = ask(match)
        unclear = _NOT_PLACE.search(match["answer"]) or _FINITE.search(f" {match['answer']} ")
        return None if unclear else form

    return ask_where


def _action(rest: str, ask: Ask) -> Rule:
    """Return a rule on clauses that have a subject and then `rest`."""
    return rule(f"^{SUBJECT} {rest}$", ask)


ACTIONS: Sequence[Rule] = (
    _action(
        rf"(?P<verb>seats|sleeps|accommodates) {_ABOUT}(?P<answer>(?={NUMBER})[\w,.-]+)(?: people| guests)?",
        _asked("How many people {do} {what} {base}?"),
    ),
    _action(
        rf"{_ADVERB}(?P<verb>pays?) {_ABOUT}{_PRICE}(?P<rest> (?:for|per) [^,;]+?)?"
        r"(?:,? (?:if|once|when|unless|as|because|and) .*|, .*)?",
        _asked("How much {do} {what} {base}{rest}?"),
    ),
    _action(
        r"(?P<verb>pays?) (?P<answer>half|a third|a quarter|two thirds) of (?P<rest>(?:the|their|its) \w+).*",
        _asked("How much of {rest} {do} {what} {base}?"),
    ),
    _action(
        rf"{_MODAL} (?P<done>(?:{'|'.join(_BASES)}|keep|use)"
        r"(?: (?:open|closed|alone|(?:in|on|at) the \w+(?: \w+)?))?)"
        rf" for {_ABOUT}(?P<answer>{DURATION})(?:,.*)?",
        _asked("For how long {modal} {what} {done}?"),
    ),
    _action(
        rf"{_ADVERB}(?P<verb>{_ACTS})(?: for)? {_ABOUT}(?P<answer>{DURATION})(?P<rest> for [^,;]+?)?"
        r"(?: (?:a|per|before|after|in|at|on|if|when)\b.*|,.*)?",
        _asked("How long {do} {what} {base}{rest}?"),
    ),
    _action(
        rf"{_ADVERB}(?P<verb>[a-z]+s) (?P<rest>the \w+) for {_ABOUT}(?P<answer>{DURATION})(?:,.*)?",
        _asked("For how long {do} {what} {base} {rest}?"),
    ),
    _action(
        rf"(?P<verb>crosses|travels|sails|runs|drives)(?P<rest> [^,;]+)? in {_ABOUT}(?P<answer>{DURATION})",
        _asked("How long {do} {what} take to {base}{rest}?"),
    ),
    _action(
        r"(?P<verb>[a-z]+s)(?P<rest> the \w+)? (?P<answer>(?:every|once|twice|\w+ times) [^,;]+?)"
        r"(?: (?:in|at|by|from|during|and) .*)?",
        _asked("How often {do} {what} {base}{rest}?"),
    ),
    _action(
        rf"{_ADVERB}(?P<verb>needs?) (?P<answer>(?:the|an?) (?!.* (?:if|when) )[^,;]+?)"
        r"(?: (?:of|for|from|held|that|to|with) .*|,.*)?",
        _asked("What {do} {what} {base}?"),
    ),
    _action(
        r"(?P<verb>wears?|recalls?) (?P<answer>[^,;]+?)(?: (?:with|in|at|on) .*|,.*)?",
        _asked("What {do} {what} {base}?"),
    ),
    rule(
        rf"^We (?P<verb>{'|'.join(_BASES)}) (?:on|at|in) (?P<answer>{TIME}.*)$",
        lambda match: (f"When do you {match['verb']}?", answer_in(match)),
    ),
    rule(
        rf"^(?:On|In|At) (?P<answer>{TIME}),? (?P<what>(?:the|our|every|an?) [^,;]+?) "
        rf"(?P<verb>{_ACTS})(?P<rest> to [^,;]+?)?(?: (?:with|in|at|on|for)\b.*|,.*)?$",
        _asked("When {do} {what} {base}{rest}?"),
    ),
    rule(
        rf"^There (?P<verb>is|are) (?P<answer>(?={NUMBER})[\w,.]+) (?P<things>(?:[a-z-]+ )?[a-z-]+s)"
        r"(?P<rest> (?:a|per|every) \w+| (?:in|on) the \w+)?$",
        "How many {things} {verb} there{rest}?",
    ),
)
"""Rules from specific to general."""

PLACES: Sequence[Rule] = (
    _action(
        rf"{_ADVERB}(?P<verb>comes?) from (?P<answer>[^,;]+)", _asked_where("Where {do} {what} come from?")
    ),
    _action(
        rf"(?P<verb>is|are|(?:must|may|can) be) (?P<done>{_ORIGINS}) from "
        rf"(?P<answer>(?!{TIME})[^,;]+)(?:,.*)?",
        _asked_where("Where {verb} {what} {be} {done} from?"),
    ),
    _action(
        rf"{_ADVERB}(?P<verb>{_ACTS}) (?:to |from )?{_PLACE}(?:,.*)?",
        _asked_where("Where {do} {what} {base}?"),
    ),
    _action(
        rf"{_MODAL} (?P<done>{'|'.join(_BASES)}|stand) {_PLACE}(?:,.*)?",
        _asked_where("Where {modal} {what} {done}?"),
    ),
    _action(
        rf"(?P<modal>must|may|can) be {DONE} {_PLACE}(?:,.*)?",
        _asked_where("Where {modal} {what} be {done}?"),
    ),
    rule(
        rf"^We (?P<verb>{'|'.join(_BASES)}) {_PLACE}(?:,.*)?$",
        lambda match: (f"Where do you {match['verb']}?", answer_in(match)),
    ),
)
"""Rules that ask for a place, besides what else a clause says."""
