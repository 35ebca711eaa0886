"""Questions on a sentence, made by rules, each with the words that answer it."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from attangent.compression.matching import DENIAL, GENERIC, NUMBERS, SMALL

# Maximum letters of a sentence: anything longer is no sentence, and patterns take long on it.
_LONGEST = 600

_WHAT = (
    r"^(?P<what>(?!{no}\b)(?:(?:the|a|an|its|our|your)\b|[A-Z]|[a-z]+(?= costs?\b))"
    r"(?:(?! (?:is|are|was|were|has|have|can|may|must) )[^,;:()]){{0,70}}?)"
)
_NOT_SUBJECTS = (
    "after|afterwards|all|and|at|before|below|by|downstairs|during|everything|for|from|he|here|how|if|in|"
    "inside|it|last|most|nearby|next|no|nobody|not|on|or|outside|please|she|so|sometimes|that|then|there|"
    "these|they|this|those|to|today|upstairs|usually|we|what|when|where|whoever|with|within|without|you"
)
_PLACES = "in|on|at|under|behind|next to|above|beside|near|across|between|opposite"
_DOES = {
    "starts": "start", "begins": "begin", "opens": "open", "closes": "close", "leaves": "leave",
    "ends": "end", "sails": "sail", "meets": "meet", "arrives": "arrive", "departs": "depart",
}  # fmt: skip
_NUMBER = re.compile(rf"^(\W?\d|({'|'.join(NUMBERS)})\b)", re.IGNORECASE)
TIME = re.compile(
    rf"^(\W?\d|({'|'.join(NUMBERS)}|half|quarter|mon|tues|wednes|thurs|fri|satur|sun|january|february|march|"
    r"april|may|june|july|august|september|october|november|december|weekdays|spring|summer|autumn|winter|"
    r"the (first|second|third|last|morning|evening|afternoon))(days?\b|s\b|\b))",
    re.IGNORECASE,
)
MONEY = re.compile(r"[$€£]|\b(euros?|dollars?|pounds?|cents?|crowns?|francs?|pence)\b")
_PERSON = re.compile(r"^((Mr|Mrs|Ms|Dr|Prof)\. |Professor |Doctor )?[A-Z][\w'-]+( [A-Z][\w'-]+){1,2}$")

Match = re.Match[str]
Rule = tuple[re.Pattern[str], Callable[..., "Form | None"]]
# A question and the words that answer it.
Form = tuple[str, str]


class AskedFact(NamedTuple):
    """Words that answer a question, and the forms of the question."""

    expected: str
    forms: tuple[str, ...]


def sentence_facts(sentence: str, german: bool = False) -> list[AskedFact]:
    """Return the facts of a sentence, each with the forms in which it is asked for."""
    if len(sentence) > _LONGEST:
        return []
    forms: dict[str, list[str]] = {}
    for question, answer in ruled_questions(sentence, german):
        word = answer if answer == DENIAL else telling_word(answer)
        if word:
            forms.setdefault(word, []).append(question)
    return [
        AskedFact(with_first_name(word, sentence), tuple(dict.fromkeys(questions)))
        for word, questions in forms.items()
    ]


def with_first_name(word: str, sentence: str) -> str:
    """Return a last name with the first name before it as an alternative; other words unchanged."""
    match = re.search(rf"\b([A-Z][\w'-]+) {re.escape(word)}\b", sentence) if word[:1].isupper() else None
    first = match[1] if match else ""
    return f"{first}|{word}" if first and first.casefold() not in SMALL | GENERIC else word


def telling_word(answer: str) -> str:
    """Return the word of an answer that proves it: its last number or name, else its longest long word."""
    words = [plain_word(word) for word in answer.split()]
    words = [word for word in words if word and word.casefold() not in SMALL]
    named = [word for word in words if is_value(word)]
    names = [word for word in named if word.casefold() not in GENERIC] or named
    if names:
        return names[-1]
    long = [word for word in words if len(word) > 3]
    return max(reversed(long), key=len, default="")


def is_value(word: str) -> bool:
    """Return whether a word is a name or a number."""
    return word[0].isupper() or any(letter.isdigit() for letter in word) or _is_number(word)


def _is_number(word: str) -> bool:
    return word.casefold().split("-")[0] in NUMBERS


def plain_word(word: str) -> str:
    """Remove the punctuation around a word."""
    return re.sub(r"^\W+|\W+$|['’]s$", "", word)


def ruled_questions(sentence: str, german: bool) -> Iterator[Form]:
    """Yield the questions of all rules that match, clause by clause; none if no rule matches."""
    if german:
        yield from _matched(sentence.rstrip(".!;:"), _GERMAN)
        return
    sentence = sentence.replace("annot ", "an not ")
    yield from _matched(sentence.rstrip(".!;:"), _CONDITIONS)
    for clause in _clauses(sentence):
        yield from _matched(clause, _RULES)


def _matched(clause: str, rules: "Sequence[Rule]") -> Iterator[Form]:
    # Rules are ordered from specific to general: the first match decides.
    for pattern, ask in rules:
        match = pattern.match(clause)
        form = ask(match) if match else None
        if form:
            yield form
            return


def _clauses(sentence: str) -> list[str]:
    """Cut a sentence before each new subject: "the net is called A and the word is B"."""
    parts = re.split(
        r",? (?:and|but|while) (?=(?:the|a|an|its) )|, (?=the \w+ (?:is|are|was|were) )", sentence
    )
    return [part.strip().rstrip(".!;:") for part in parts]


def _subject(match: Match) -> str:
    what = match["what"]
    first = what.split()[0]
    articles = ("The", "A", "An", "Its", "Our", "Your", "Every", "Each")
    return what[0].lower() + what[1:] if first in articles else what


def _answer(match: Match) -> str:
    return re.split(r",| and (?!\d)| who | which | where | between | because ", match["answer"])[0]


def _cost(match: Match) -> Form | None:
    # "The hall holds 120 people and costs 65 euros": the words before the verb are no subject.
    if re.search(r"\d", match["what"]) or match["what"].endswith(" and"):
        return None
    do = "do" if match["verb"] == "cost" else "does"
    return f"How much {do} {_subject(match)} cost?", _answer(match)


def _called(match: Match) -> Form:
    return f"What {match['verb']} {_subject(match)} called?", _answer(match)


def _by_whom(match: Match) -> Form:
    name = re.match(r"(?:the )?(?:[A-Z][\w'-]*\.? ?|aunt |uncle )+", match["answer"])
    return f"By whom {match['verb']} {_subject(match)} {match['done']}?", name[0] if name else _answer(match)


def _when_done(match: Match) -> Form:
    return f"When {match['verb']} {_subject(match)} {match['done']}?", match["answer"]


def _where(match: Match) -> Form | None:
    if _NUMBER.match(match["answer"]):
        return None
    opening = "When" if TIME.match(match["answer"]) else "Where"
    verb = match["verb"] if match["verb"] in ("is", "are", "was", "were") else "is"
    return f"{opening} {verb} {_subject(match)}?", _answer(match)


def _how_many(match: Match) -> Form:
    do = "do" if match["verb"] == "have" else "does"
    return f"How many {match['things']} {do} {_subject(match)} have?", match["answer"]


def _when_does(match: Match) -> Form | None:
    if not TIME.match(match["answer"]):
        return None
    return f"When does {_subject(match)} {_DOES[match['verb']]}?", _answer(match)


def _how_long(match: Match) -> Form | None:
    if not _NUMBER.match(match["answer"]):
        return None
    return f"How long does {_subject(match)} take?", _answer(match)


def _is(match: Match) -> Form | None:
    answer = _answer(match)
    first = answer.split()[0] if answer.split() else ""
    if MONEY.search(answer) and _NUMBER.match(answer):
        return f"How much {match['verb']} {_subject(match)}?", answer
    if not (first in ("the", "a", "an") or first[:1].isupper() or _NUMBER.match(answer)):
        return None
    who = "Who" if _PERSON.match(answer) else "What"
    return f"{who} {match['verb']} {_subject(match)}?", answer


def _how_often(match: Match) -> Form:
    return f"How often {match['verb']} {_subject(match)} {match['done']}?", _answer(match)


def _for_how_long(match: Match) -> Form | None:
    if not _NUMBER.match(match["answer"]):
        return None
    verb, _, be = match["verb"].partition(" ")
    return f"For how long {verb} {_subject(match)} {be} {match['done']}?".replace("  ", " "), _answer(match)


def _measure(match: Match) -> Form | None:
    base = _infinitive(match["verb"])
    return (f"How many {match['things']} does {_subject(match)} {base}?", match["answer"]) if base else None


def _infinitive(verb: str) -> str:
    """Return "weigh" for "weighs"; empty if this is no verb in the third person."""
    if not verb.endswith("s") or verb in ("is", "has", "was", "costs") or verb.endswith("ss"):
        return ""
    if verb.endswith("ies"):
        return f"{verb[:-3]}y"
    return verb[:-2] if verb.endswith(("ches", "shes", "sses", "xes")) else verb[:-1]


def _when_acts(match: Match) -> Form | None:
    base = _infinitive(match["verb"])
    if not base or not TIME.match(match["answer"]):
        return None
    return f"When does {_subject(match)} {base}{match['particle']}?", _answer(match)


_TIMES = {"from": "From when", "until": "Until when", "within": "Within what time", "by": "By when"}


def _done_when(match: Match) -> Form | None:
    """Ask by whom or when something is or must be done."""
    opening = "By how much" if MONEY.search(match["answer"]) else _TIMES.get(match["preposition"], "When")
    if not TIME.match(match["answer"]):
        if match["preposition"] != "by":
            return None
        opening = "By whom"
    verb, _, be = match["verb"].partition(" ")
    done = f"{be} {match['done']}".strip()
    return f"{opening} {verb} {_subject(match)} {done}?", _answer(match)


def _to_whom(match: Match) -> Form:
    verb, _, rest = match["verb"].partition(" ")
    auxiliary = {"go": "do", "goes": "does"}.get(verb, verb)
    receiver = re.split(r" (?:in|at|on) ", match["answer"])[0]
    return f"To whom {auxiliary} {_subject(match)} {rest or 'go'}?", receiver


def _counted_first(match: Match) -> Form:
    return f"How many {match['things']} {match['rest']}?", match["answer"]


def _modal_measure(match: Match) -> Form:
    question = f"How many {match['things']} {match['modal']} {_subject(match)} {match['done']}?"
    return question, match["answer"]


def _if(match: Match) -> Form | None:
    condition = match["condition"].strip()
    if len(condition.split()) > _LONGEST_CONDITION:
        return None
    return f"What {_HAPPENS[match['word'].casefold()]} {condition}?", match["answer"]


def _exception(match: Match) -> Form:
    return f"What is the exception to this rule: {_lower(match['rule'])}?", match["answer"]


def _denied(match: Match) -> Form:
    # "Staff must not smoke" is asked for as "May staff smoke?".
    modal = match["modal"].replace("must", "may").capitalize()
    return f"{modal} {_lower(match['what'])} {match['done']}?", DENIAL


def _denied_order(match: Match) -> Form:
    return f"May I {match['done']}?", DENIAL


def _only(match: Match) -> Form:
    return f"Who {match['modal']} {match['done']}?", match["answer"]


def _lower(text: str) -> str:
    first = text.split()[0]
    return text if first.casefold() not in SMALL and first[1:2].isupper() else text[0].lower() + text[1:]


def _german(word: str) -> Callable[[Match], Form]:
    def ask(match: Match) -> Form:
        return f"{word} {_lower(match['what'])}?", match["answer"]

    return ask


_NO_MODAL = r"(?:(?! (?:must|may|can|should|will|shall|is|are) ).)"
_LONGEST_CONDITION = 14
_HAPPENS = {
    "if": "happens if",
    "when": "happens when",
    "whenever": "happens when",
    "before": "must be done before",
}
_HAPPENS |= {"after": "happens after", "unless": "happens unless"}


def _rule(rest: str, ask: Callable[[Match], Form | None]) -> Rule:
    no = f"(?i:{_NOT_SUBJECTS})"
    return re.compile(_WHAT.format(no=no) + " " + rest + "$"), ask


_BE = "(?P<verb>is|are|was|were)"
_DONE = (
    r"(?P<done>(?:\w+ed|built|made|kept|held|taught|given|run|sold|led|written|drawn|bought|found|grown|won|sent|paid|"
    r"shown|thrown|lent|left|brought|taken|set|shut)(?: back| out| off| away)?)"
)
_BE_OR_MUST = r"(?P<verb>is|are|was|were|(?:must|may|can|should|will) be)"
_COUNT = rf"(?P<answer>\d[\d,.]*|(?i:{'|'.join(NUMBERS)})) (?P<things>[a-z-]+s)\b"
_MODAL = "(?P<modal>must|may|can|should|will|shall)"
_RULES: Sequence[Rule] = (
    (
        re.compile(rf"(?i:^(?:up to |at most |at least |about |only )?){_COUNT} (?P<rest>[^,;]{{8,80}}).*$"),
        _counted_first,
    ),
    _rule(r"(?P<verb>costs?) (?P<answer>.*\d.*|.*\b(?:" + "|".join(NUMBERS) + r")\b.*|nothing.*)", _cost),
    _rule(rf"{_BE} called (?P<answer>.+)", _called),
    _rule(rf"{_BE} {_DONE} by (?P<answer>(?:the|a|an) .+|[A-Z].+)", _by_whom),
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
    _rule(rf"{_BE} {_DONE} (?P<answer>every .+|once .+|twice .+)", _how_often),
    _rule(rf"(?P<verb>is|are|may be|can be|must be) {_DONE} for (?P<answer>.+)", _for_how_long),
    _rule(
        rf"{_BE_OR_MUST} {_DONE} (?P<preposition>by|within|from|until|before|after|on|in|at) (?P<answer>.+)",
        _done_when,
    ),
    _rule(
        r"(?P<verb>goe?s?|(?:is|are|must be|may be) (?:sent|given|returned|reported|handed|brought|shown)) "
        r"to (?P<answer>.+)",
        _to_whom,
    ),
    _rule(
        r"(?P<verb>[a-z]+s)(?P<particle>(?: off| on| out| up)?) (?:after|at|on|from|in) (?P<answer>.+)",
        _when_acts,
    ),
    _rule(
        rf"{_MODAL} (?P<done>[a-z]+(?: [a-z]+)?)(?: (?:at most|at least|up to))? {_COUNT}.*", _modal_measure
    ),
    _rule(rf"(?P<verb>[a-z]+s)(?: (?:at most|at least|up to|about))? {_COUNT}.*", _measure),
    _rule(rf"{_BE} (?P<answer>.+)", _is),
)
_CONDITIONS: Sequence[Rule] = (
    (
        re.compile(
            r"^(?P<word>If|When|Whenever|Before|After) (?P<condition>[^,]+), (?:then )?(?P<answer>.+)$"
        ),
        _if,
    ),
    (re.compile(r"^(?P<rule>.{12,120}?),? (?:unless|except(?: when| if| for)?) (?P<answer>.+)$"), _exception),
    (re.compile(r"^(?P<answer>.{12,160}?),? (?P<word>if|when) (?P<condition>[^,]+)$"), _if),
    (re.compile(rf"^Only (?P<answer>.{{3,60}}?) {_MODAL} (?P<done>.{{3,80}})$"), _only),
    (
        re.compile(
            rf"^(?P<what>[A-Z]{_NO_MODAL}{{2,60}}?) {_MODAL} (?:not|never) (?P<done>[^,;]{{3,80}}).*$"
        ),
        _denied,
    ),
    (
        re.compile(
            rf"^(?P<what>[A-Z]{_NO_MODAL}{{2,60}}?) (?P<modal>is|are) (?:not|never) "
            r"(?P<done>[^,;]{3,80}).*$"
        ),
        _denied,
    ),
    (re.compile(r"^No (?P<what>.{2,60}?) (?P<modal>is|are|may|can) (?P<done>[^,;]{3,80}).*$"), _denied),
    (re.compile(r"^(?:Never|Do not|Don't) (?P<done>[^,;:]{3,80}).*$"), _denied_order),
)
_GERMAN_WHAT = r"^(?P<what>(?:Der|Die|Das|Ein|Eine|Unser|Unsere)\b[^,;:()]{2,70}?)"
_GERMAN: Sequence[Rule] = (
    (re.compile(_GERMAN_WHAT + r" (?:kostet|kosten) (?P<answer>.*\d.*|nichts)$"), _german("Was kostet")),
    (re.compile(_GERMAN_WHAT + r" (?:heißt|heißen) (?P<answer>.+)$"), _german("Wie heißt")),
    (re.compile(_GERMAN_WHAT + r" beträgt (?P<answer>.*\d.*)$"), _german("Wie hoch ist")),
    (re.compile(_GERMAN_WHAT + r" dauert (?P<answer>.+)$"), _german("Wie lange dauert")),
    (re.compile(_GERMAN_WHAT + r" (?:beginnt|öffnet) (?:um|am|im) (?P<answer>.+)$"), _german("Wann beginnt")),
    (re.compile(_GERMAN_WHAT + r" ist (?P<answer>[A-ZÄÖÜ]\w+ [A-ZÄÖÜ]\w+)$"), _german("Wer ist")),
    (
        re.compile(_GERMAN_WHAT + r" (?:liegt|steht|ist) (?:in|im|am|auf|an|neben) (?P<answer>.+)$"),
        _german("Wo ist"),
    ),
    (re.compile(_GERMAN_WHAT + r" ist (?P<answer>.*\d.*)$"), _german("Was ist")),
)
