"""Rules on English sentences that say what happens if, what is not allowed, and what the reader must do."""

import re
from collections.abc import Sequence

from attangent.compression.matching import DENIAL, SMALL
from attangent.compression.rules.answers import NUMBER
from attangent.compression.rules.clauses import SUBJECT, in_question
from attangent.compression.rules.rule import Form, Match, Rule, rule

_LONGEST_CONDITION = 14
_PRONOUNS = frozenset(("it", "its", "they", "them", "their", "he", "him", "his", "she", "her"))
# Words after which "if" and "when" begin no condition under which something happens.
_NO_CONDITION = ("only", "even", "as", "ask", "check", "see", "sure", "know", "except", "unless")
_NEXT_CLAUSE = r"[,;] (?:and|but|which|who|because|so|provided|unless|otherwise)\b|; "
_OPENINGS = {
    "if": "What happens if",
    "when": "What happens when",
    "whenever": "What happens when",
    "before": "What must be done before",
    "after": "What happens after",
}
_MODALS = "must|may|can|should|will|shall"


def _if_first(match: Match) -> Form | None:
    return _under_condition(match, re.split(_NEXT_CLAUSE, match["answer"])[0])


def _if_last(match: Match) -> Form | None:
    # In "Tanks may stay, but ships leave if it storms", the condition belongs to the last clause.
    result = re.split(_NEXT_CLAUSE, match["answer"])[-1]
    if ", or " in result or result.endswith(_NO_CONDITION):
        return None
    return _under_condition(match, result)


def _under_condition(match: Match, result: str) -> Form | None:
    words = match["condition"].split()
    if len(words) > _LONGEST_CONDITION or _is_unclear(words):
        return None
    return f"{_OPENINGS[match['word'].casefold()]} {' '.join(words)}?", result


def _exception(match: Match) -> Form | None:
    general = match["rule"].split(", which")[0]
    # "Do not open it, unless ...": only the sentences before say what it is.
    if _is_unclear(general.casefold().split()[:4]):
        return None
    exception = re.split(r",? (?:which|who|when|where|because) |; ", match["answer"])[0]
    return f"What is the exception to this rule: {in_question(general)}?", exception


def _is_unclear(words: Sequence[str]) -> bool:
    """Return whether only other sentences say what words such as "it" mean."""
    return words[:1] in (["this"], ["that"], ["these"], ["those"]) or not _PRONOUNS.isdisjoint(words)


def _only(match: Match) -> Form | None:
    if _is_unclear(match["done"].split()):
        return None
    return f"Who {match['modal']} {match['done']}?", match["answer"]


def _denied(match: Match) -> Form | None:
    if match["what"].endswith((" that", " which", " who")):
        return None
    # The question on "Staff must not smoke" is "May staff smoke?".
    modal = match["modal"].replace("must", "may").capitalize()
    return f"{modal} {_lower(match['what'])} {match['done']}?", DENIAL


def _none(match: Match) -> Form:
    return f"{match['modal'].capitalize()} any {match['what']} {match['done']}?", DENIAL


def _denied_order(match: Match) -> Form | None:
    if _is_unclear(match["done"].split()[:2]):
        return None
    return f"May I {match['done']}?", DENIAL


def _has_none(match: Match) -> Form:
    verb = {"has": "Does", "have": "Do"}[match["verb"]]
    return f"{verb} {_lower(match['what'])} have {match['things']}?", DENIAL


def _ordered(match: Match) -> Form:
    order = f"do I {match['verb'].lower()} {match['things']}"
    return f"Where {order}?" if match["place"] else f"Who {order} to?", match["answer"]


def _forbidden(match: Match) -> Form:
    return f"{match['modal'].capitalize()} {_lower(match['what'])} allowed?", DENIAL


def _lower(text: str) -> str:
    """Put the first letter of a text in lower case unless it begins with an abbreviation."""
    first = text.split()[0]
    return text if first.casefold() not in SMALL and first[1:2].isupper() else text[0].lower() + text[1:]


CONDITIONS: Sequence[Rule] = (
    rule(
        r"^(?P<word>If|When|Whenever|Before|After) (?P<condition>[^,]+), (?:then )?(?P<answer>.+)$", _if_first
    ),
    rule(r"^(?P<rule>.{12,120}?),? (?:unless|except(?: when| if| for)?) (?P<answer>.+)$", _exception),
    rule(rf"^Only (?P<answer>.{{3,60}}?) (?P<modal>{_MODALS}) (?P<done>\S.{{2,80}})$", _only),
    rule(r"^(?:Never|Do not|Don't) (?P<done>[^,;:]{3,80}).*$", _denied_order),
)
"""Rules on whole sentences, from specific to general."""

DENIALS: Sequence[Rule] = (
    rule(
        rf"^{SUBJECT} (?P<modal>{_MODALS}|is|are) (?:not|never) (?!only )(?P<done>[^,;]{{3,80}}).*$", _denied
    ),
    rule(r"^No (?P<what>.{2,60}?) (?P<modal>is|are|may|can) (?P<done>[^,;]{3,80}).*$", _none),
    rule(r"^(?P<what>[A-Z][\w -]{2,40}?) (?P<verb>has|have) no (?P<things>[^,;]{3,60}).*$", _has_none),
    rule(r"^(?P<what>[A-Z][\w -]{2,60}?) (?P<modal>is|are) (?:forbidden|prohibited)\b", _forbidden),
)
"""Rules on clauses."""

LAST_RULES: Sequence[Rule] = (
    rule(
        r"^(?P<verb>Report|Send|Give|Hand|Return|Show|Put|Keep|Store|Leave|Hang) (?P<things>[^,;]{3,60}?) "
        rf"(?:to|(?P<place>into|in|on|under|behind)) (?P<answer>(?!{NUMBER}|one )[^,;]+)",
        _ordered,
    ),
    rule(r"^(?P<answer>.{11,160}?[^,])(?:, (?=if )| )(?P<word>if|when) (?P<condition>[^,]+)$", _if_last),
)
"""Rules on whole sentences of which nothing else can be asked."""
