"""Rules: the pattern of a clause, and the question that such a clause answers."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from attangent.compression.rules.clauses import in_question
from attangent.compression.rules.verbs import infinitive

Match = re.Match[str]
# A question and its answer as the clause has it.
Form = tuple[str, str]
Ask = Callable[[Match], Form | None]


class Rule(NamedTuple):
    """A pattern, and the function that makes a question of its match or returns None."""

    pattern: re.Pattern[str]
    ask: Ask


def rule(pattern: str, ask: str | Ask) -> Rule:
    """Return a rule.

    Args:
        pattern: Pattern of the clause. Its group `answer` is the answer.
        ask: A function, or a template as in `filled`.
    """
    return Rule(re.compile(pattern), partial(_form, ask) if isinstance(ask, str) else ask)


def first_form(clause: str, rules: Sequence[Rule]) -> list[Form]:
    """Return the question of the first rule that makes one; rules are ordered from specific to general."""
    for pattern, ask in rules:
        match = pattern.match(clause)
        form = ask(match) if match else None
        if form:
            return [form]
    return []


def _form(template: str, match: Match) -> Form | None:
    question = filled(template, match)
    return (question, answer_in(match)) if question else None


def filled(template: str, match: Match) -> str:
    """Fill a template of a question with the groups of a match; return "" if the verb has no base form.

    "may be" in the group `verb` becomes `{verb}` "may" and `{be}` "be". `{base}` is the verb's base form, and
    `{do}` is "do" or "does".

    Example:
        >>> match = re.match("(?P<what>.+) (?P<verb>uses) wind", "The mill uses wind")
        >>> filled("What {do} {what} {base}?", match)
        'What does the mill use?'
    """
    fields = match.groupdict(default="")
    verb, _, be = fields.pop("verb", "").partition(" ")
    what = in_question(fields.pop("what", ""))
    do = "does" if verb.endswith("s") else "do"
    base = infinitive(verb) if do == "does" else verb
    if "{base}" in template and not base:
        return ""
    question = template.format(what=what, verb=verb, be=be, do=do, base=base, **fields)
    return " ".join(question.split()).replace(" ?", "?")


def answer_in(match: Match) -> str:
    """Return the answer in a match without further clauses."""
    ends = r",(?!\d)| and (?!\d)| who | which | where | between | because | at (?:least|most) "
    return re.split(ends, match["answer"])[0]
