"""Rules on English sentences that say what happens if, what is not allowed, and what the reader must do."""

from collections.abc import Sequence

from attangent.compression.matching import DENIAL, SMALL
from attangent.compression.rules.clauses import in_question
from attangent.compression.rules.rule import Form, Match, Rule, rule

_LONGEST_CONDITION = 14
_PRONOUNS = ("it", "they", "this", "that", "these", "those", "he", "she")
_OPENINGS = {
    "if": "What happens if",
    "when": "What happens when",
    "whenever": "What happens when",
    "before": "What must be done before",
    "after": "What happens after",
}
_MODALS = "must|may|can|should|will|shall"
_SUBJECT = rf"(?P<what>[A-Z](?:(?! (?:{_MODALS}|is|are) ).){{2,60}}?)"


def _under_condition(match: Match) -> Form | None:
    condition = match["condition"].strip()
    words = condition.split()
    if len(words) > _LONGEST_CONDITION or words[0] in _PRONOUNS:
        return None
    return f"{_OPENINGS[match['word'].casefold()]} {condition}?", match["answer"]


def _exception(match: Match) -> Form:
    general = match["rule"].split(", which")[0]
    return f"What is the exception to this rule: {in_question(general)}?", match["answer"]


def _only(match: Match) -> Form:
    return f"Who {match['modal']} {match['done']}?", match["answer"]


def _denied(match: Match) -> Form | None:
    if match["what"].split()[-1] in ("that", "which", "who"):
        return None
    # The question on "Staff must not smoke" is "May staff smoke?".
    modal = match["modal"].replace("must", "may").capitalize()
    return f"{modal} {_lower(match['what'])} {match['done']}?", DENIAL


def _denied_order(match: Match) -> Form:
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
        r"^(?P<word>If|When|Whenever|Before|After) (?P<condition>[^,]+), (?:then )?(?P<answer>.+)$",
        _under_condition,
    ),
    rule(r"^(?P<rule>.{12,120}?),? (?:unless|except(?: when| if| for)?) (?P<answer>.+)$", _exception),
    rule(rf"^Only (?P<answer>.{{3,60}}?) (?P<modal>{_MODALS}) (?P<done>.{{3,80}})$", _only),
    rule(rf"^{_SUBJECT} (?P<modal>{_MODALS}|is|are) (?:not|never) (?P<done>[^,;]{{3,80}}).*$", _denied),
    rule(r"^No (?P<what>.{2,60}?) (?P<modal>is|are|may|can) (?P<done>[^,;]{3,80}).*$", _denied),
    rule(r"^(?:Never|Do not|Don't) (?P<done>[^,;:]{3,80}).*$", _denied_order),
    rule(r"^(?P<what>[A-Z][\w -]{2,40}?) (?P<verb>has|have) no (?P<things>[^,;]{3,60}).*$", _has_none),
)
"""Rules on whole sentences, from specific to general."""

LAST_RULES: Sequence[Rule] = (
    rule(
        r"^(?P<verb>Report|Send|Give|Hand|Return|Show|Put|Keep|Store|Leave|Hang) (?P<things>[^,;]{3,60}?) "
        r"(?:to|(?P<place>into|in|on|under|behind)) (?P<answer>[^,;]+)",
        _ordered,
    ),
    rule(r"^(?P<what>[A-Z][\w -]{2,60}?) (?P<modal>is|are) (?:forbidden|prohibited)\b", _forbidden),
    rule(r"^(?P<answer>.{12,160}?),? (?P<word>if|when) (?P<condition>[^,]+)$", _under_condition),
    rule(
        r"^.*\b(?:a|an|the) (?P<what>[a-z]+(?: [a-z]+)?) called (?P<answer>[\w-]+.*)$",
        lambda match: (f"What is the {match['what']} called?", match["answer"]),
    ),
)
"""Rules on whole sentences of which nothing else can be asked."""
