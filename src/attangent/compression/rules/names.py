"""Names that stand in apposition: "the warden, Ishbel Grant" and "one harbour, called Oxnam Hythe"."""

import re
from collections.abc import Iterator

from attangent.compression.rules.rule import Form

_NAME = r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+){0,3}"
_NOUN = r"(?P<article>the|The|an?|An?|our|Our|one|their|its) (?P<noun>[a-z-]+(?: [a-z-]+){0,2})"
_NO_NAME = "after|as|at|back|by|for|from|if|in|it|off|on|out|so|to|up|when"
_CALLED = re.compile(rf"\b{_NOUN},? (?:called|named) (?P<name>(?:the )?{_NAME}|(?!(?:{_NO_NAME})\b)[\w-]+)")
_NAMED = re.compile(
    rf"\b{_NOUN}(?P<of> of (?:the|our|this) [a-z-]+)?, (?P<name>(?:[Tt]he )?{_NAME})(?=,|\.?$)"
)
# Offices that end as other nouns do, and other nouns that end as offices do.
_PERSON = re.compile(
    r"(?:er|or|ist|ian|man|woman|nurse|cook|warden|clerk|coach|chair|head|chef|guide|pilot|priest|vicar|dean|"
    r"secretary|host|agent|accountant|assistant|president|superintendent)$"
)
_THING = re.compile(
    r"(?:river|tower|computer|printer|server|paper|letter|water|door|floor|motor|monitor|corner|border|number|"
    r"trailer|theater|chamber|cellar|member|sister|paper|order|summer|winter|harbor|corridor)$"
)
_VERBS = re.compile(r"\b(?:is|are|was|were|has|have|can|may|must|and|or|that|in|at|on|by|to|from|for|with)\b")


def name_forms(sentence: str) -> Iterator[Form]:
    """Yield a question for each name in apposition.

    Example:
        >>> list(name_forms("Visitors ask the warden, Ishbel Grant."))
        [('Who is the warden?', 'Ishbel Grant')]
    """
    for match in _CALLED.finditer(sentence):
        if not _VERBS.search(match["noun"]):
            yield f"What is {_noun(match)} called?", match["name"]
    for match in _NAMED.finditer(sentence):
        question = _question(match)
        if question:
            yield question, match["name"]


def without_names(sentence: str) -> str:
    """Remove names in apposition from a sentence.

    Example:
        >>> without_names("A nurse, Callum Reddick, lives in the old house.")
        'The nurse lives in the old house.'
    """
    parts: list[str] = []
    end = 0
    for match in _NAMED.finditer(sentence):
        if not _question(match):
            continue
        noun = _noun(match)
        parts += [sentence[end : match.start()], noun if match.start() else noun.capitalize()]
        end = match.end()
        rest = sentence[end:]
        # The comma after the name belongs to it, unless another clause begins there.
        if rest.startswith(",") and not re.match(r", (?:who|which|whose|and|but|or|when|where|up) ", rest):
            end += 1
    return "".join([*parts, sentence[end:]])


def _noun(match: re.Match[str]) -> str:
    article = match["article"].lower()
    of = match.groupdict().get("of") or ""
    return f"{article if article in ('our', 'their', 'its') else 'the'} {match['noun']}{of}"


def _question(match: re.Match[str]) -> str:
    """Return the question on a name, or "" if it may be none of the noun before it."""
    noun = match["noun"]
    if _VERBS.search(noun) or match["article"] in ("their", "its"):
        return ""
    if noun.endswith("name"):
        return f"What is {_noun(match)}?"
    is_office = _PERSON.search(noun) and not _THING.search(noun)
    if is_office and re.fullmatch(_NAME, match["name"]):
        return f"Who is {_noun(match)}?"
    # "In the north, Eira Lund, ..." gives the north no name.
    return f"What is {_noun(match)} called?" if match["name"].casefold().startswith("the ") else ""
