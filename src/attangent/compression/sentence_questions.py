"""Questions on a sentence, made by rules, each with the words that answer it."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from attangent.compression.matching import DENIAL, GENERIC, NUMBERS, SMALL

# Maximum letters of a sentence: anything longer is no sentence, and patterns take long on it.
_LONGEST = 600

_WHAT = (
    r"^(?P<what>(?!{no}\b)(?:(?:the|a|an|our|your|each|every)\b|[A-Z]|[a-z]+(?= costs?\b))"
    r"(?:(?! (?:is|are|was|were|has|have|can|may|must) )[^,;:()]){{0,70}}?)"
)
_NOT_SUBJECTS = (
    "after|afterwards|all|and|at|before|below|between|by|downstairs|during|everything|for|from|he|here|how|if|in|"
    "inside|it|its|last|most|nearby|next|no|nobody|not|nothing|on|or|outside|please|she|so|sometimes|that|then|there|"
    "their|these|they|this|those|to|today|upstairs|usually|we|what|when|where|whoever|with|within|without|you"
)
_PLACES = "in|on|at|under|behind|next to|above|beside|near|across|between|opposite"
_DOES = {
    "starts": "start", "begins": "begin", "opens": "open", "closes": "close", "leaves": "leave",
    "ends": "end", "sails": "sail", "meets": "meet", "arrives": "arrive", "departs": "depart",
}  # fmt: skip
_NUMBER = re.compile(rf"^(\W?\d|({'|'.join(NUMBERS)})\b)", re.IGNORECASE)
_CLOCK = r"(?: o'clock| ?[ap]\.?m\b|$|,| in the | on | and | to | until | every | before | after )"
_DURATION = r" (?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|nights?)\b"
_DAY = (
    "(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|weekends?|january|february|march|april|may|june|july|"
    "august|september|october|november|december|spring|summer|autumn|winter"
)
_HOUR = rf"(?:half past |quarter (?:past|to) )?(?:\d{{1,3}}(?:[.:]\d\d)?|{'|'.join(NUMBERS)})"
_TIMES = (
    r"\d{4}\b",
    rf"{_HOUR}(?={_CLOCK}|{_DURATION})",
    r"(?:noon|midnight)\b",
    rf"(?:the (?:first|second|third|last) )?(?:{_DAY})\b",
    r"the (?:morning|afternoon|evening)s?\b",
    r"the (?:beginning|end|start) of\b",
)
TIME = re.compile(rf"^(?P<time>{'|'.join(_TIMES)})", re.IGNORECASE)
MONEY = re.compile(r"[$€£]|\b(euros?|dollars?|pounds?|cents?|crowns?|francs?|pence)\b")
_MEANS = re.compile(r"^(?:e-?mail|phone|post|letter|card|hand|cash|bank|train|bus)\b", re.IGNORECASE)
_BASE_FORMS = {
    "led": "lead", "given": "give", "kept": "keep", "made": "make", "held": "hold", "sold": "sell",
    "run": "run", "taught": "teach", "built": "build", "written": "write", "found": "find",
    "grown": "grow", "won": "win", "sent": "send", "paid": "pay", "shown": "show", "bought": "buy",
    "lent": "lend", "brought": "bring", "taken": "take", "drawn": "draw", "set": "set", "shut": "shut",
}  # fmt: skip
_PAST = {
    "given": "gave", "run": "ran", "written": "wrote", "grown": "grew", "shown": "showed",
    "taken": "took", "drawn": "drew",
}  # fmt: skip
# Ends of stems whose base form ends in e: approv, organis, announc, handl, operat, decid, hir, combin.
_SILENT_E = re.compile(
    r"(?:[vczgu]|(?<!s)s|[bcdfgkpt]l|[^aeou]at|[^aeiou]id|[^aeiou][iu]r|[^aeiou]in|(?:st|sc|gn|pl)or|ak)$"
)
_COMMON_NOUN = re.compile(r"[a-z](?:s|tion|ment|ity|ing|age|ance|ness|ey)$")
_PERSON = re.compile(r"^((Mr|Mrs|Ms|Dr|Prof)\. |Professor |Doctor )?[A-Z][\w'-]+( [A-Z][\w'-]+){1,2}$")

Match = re.Match[str]
Rule = tuple[re.Pattern[str], Callable[..., "Form | None"]]
# A question and the words that answer it.
Form = tuple[str, str]
# Openings of questions that a clause answers; any of its most telling words proves the answer.
_ASKS_FOR_CLAUSE = ("What happens", "What must be done", "What is the exception")
_ALTERNATIVES = 3
_SHORT_WORD = 4
_ASKS_FOR_NUMBER = ("How ", "For how long", "By how much", "Within how many")
_ASKS_FOR_TIME = ("When", "From when", "Until when", "By when")


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
        expected = _expected(question, answer, sentence)
        if expected:
            forms.setdefault(expected, []).append(question)
    return [AskedFact(expected, tuple(dict.fromkeys(questions))) for expected, questions in forms.items()]


def _expected(question: str, answer: str, sentence: str) -> str:
    """Return the words of which a right answer contains one."""
    if answer == DENIAL:
        return answer
    if question.startswith(_ASKS_FOR_CLAUSE):
        known = {word.casefold() for word in map(plain_word, question.split())}
        return "|".join(word for word in telling_words(answer) if word.casefold() not in known)
    time = TIME.match(answer) if question.startswith(_ASKS_FOR_TIME) else None
    if time:
        return telling_word(time["time"]) or telling_word(answer)
    if question.startswith(_ASKS_FOR_NUMBER):
        numbers = [word for word in map(plain_word, answer.split()) if word[:1].isdigit() or _is_number(word)]
        return numbers[0] if numbers else telling_word(answer)
    word = telling_word(answer)
    return with_first_name(word, sentence) if word else ""


def telling_words(clause: str) -> list[str]:
    """Return the words that prove that an answer says a clause: numbers and names, else the longest ones."""
    words = [plain_word(word) for word in clause.split()]
    words = [word for word in words if word and word.casefold() not in SMALL | GENERIC]
    # The first word has a capital letter because a sentence begins with it.
    named = [word for word in words[1:] if is_value(word)]
    if words and not words[0].istitle() and is_value(words[0]):
        named.insert(0, words[0])
    long = [word for word in words if len(word) > _SHORT_WORD and word not in named]
    return named[-_ALTERNATIVES:] or sorted(long, key=len, reverse=True)[:_ALTERNATIVES]


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
    sentence = sentence.replace("annot ", "an not ").rstrip(".!;:")
    forms = [*_matched(sentence, _CONDITIONS)]
    for clause in _clauses(sentence):
        forms += _matched(clause, _RULES)
    # What happens under a condition is asked only if nothing in the sentence can be asked for directly.
    yield from forms or _matched(sentence, _LAST_RULES)


def _matched(clause: str, rules: "Sequence[Rule]") -> Iterator[Form]:
    # Rules are ordered from specific to general: the first match decides.
    for pattern, ask in rules:
        match = pattern.match(clause)
        form = ask(match) if match else None
        if form:
            yield form
            return


def _clauses(sentence: str) -> list[str]:
    """Cut a sentence into clauses, each with its subject."""
    parts = re.split(
        r"[,;]? (?:and|but|while) (?=(?:the|a|an|each|every) )|, (?=the \w+ (?:is|are|was|were) )|; ",
        sentence,
    )
    return [clause for part in parts for clause in _with_subjects(part.strip().rstrip(".!;:"))]


def _with_subjects(clause: str) -> Iterator[str]:
    """Cut a clause before its further verbs and agents, and repeat the subject before each."""
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
        opening, _, rest = sentence.partition(" ")
        if opening in ("It", "They") and subject:
            sentence = f"{subject} {rest}"
        match = _SUBJECT.match(sentence)
        subject = match["subject"] if match else ""
        replaced.append(sentence)
    return replaced


def _subject(match: Match) -> str:
    return _inside(match["what"])


def _inside(subject: str) -> str:
    """Return the subject of a sentence in the form for a question: common nouns in lower case."""
    first, _, rest = subject.partition(" ")
    if first in ("The", "A", "An", "Our", "Your", "Every", "Each"):
        return subject[0].lower() + subject[1:]
    common = rest[:1].islower() or (not rest and _COMMON_NOUN.search(first))
    return subject[0].lower() + subject[1:] if common and not first[1:2].isupper() else subject


def _answer(match: Match) -> str:
    return re.split(r",(?!\d)| and (?!\d)| who | which | where | between | because ", match["answer"])[0]


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
    return _who(match), name[0] if name else _answer(match)


def _who(match: Match) -> str:
    """Ask for the agent of a passive clause: "Who reviews the code?" if it is reviewed by somebody."""
    verb, _, be = match["verb"].partition(" ")
    participle, _, particle = match["done"].partition(" ")
    base = _base_form(participle)
    if not base:
        return f"Who {verb} {_subject(match)} {be} {match['done']} by?".replace("  ", " ")
    if be:
        active = f"{verb} {base}"
    elif verb in ("was", "were"):
        active = _PAST.get(participle, participle)
    else:
        active = f"{base[:-1]}ies" if re.search(r"[^aeiou]y$", base) else base + "s"
        active = f"{base}es" if base.endswith(("ch", "sh", "ss", "x")) else active
    return f"Who {active} {_subject(match)} {particle}".strip() + "?"


def _base_form(participle: str) -> str:
    """Return "review" for "reviewed" and "give" for "given"; empty for unknown irregular verbs."""
    if participle in _BASE_FORMS or not participle.endswith("ed"):
        return _BASE_FORMS.get(participle, "")
    stem = participle[:-2]
    if stem.endswith("i"):
        return f"{stem[:-1]}y"
    if re.search(r"([bdgmnprt])\1$", stem):
        return stem[:-1]
    return f"{stem}e" if _SILENT_E.search(stem) else stem


def _when_done(match: Match) -> Form:
    return f"When {match['verb']} {_subject(match)} {match['done']}?", match["answer"]


def _where(match: Match) -> Form | None:
    verb = {"stand": "are", "hang": "are", "lie": "are"}.get(match["verb"], match["verb"])
    verb = verb if verb in ("is", "are", "was", "were") else "is"
    if TIME.match(match["answer"]):
        return f"When {verb} {_subject(match)}?", match["answer"]
    return None if _NUMBER.match(match["answer"]) else (f"Where {verb} {_subject(match)}?", _answer(match))


def _how_many(match: Match) -> Form:
    do = "do" if match["verb"] == "have" else "does"
    return f"How many {match['things']} {do} {_subject(match)} have?", match["answer"]


def _when_does(match: Match) -> Form | None:
    if not TIME.match(match["answer"]):
        return None
    return f"When does {_subject(match)} {_DOES[match['verb']]}?", match["answer"]


def _how_long(match: Match) -> Form | None:
    if not _NUMBER.match(match["answer"]):
        return None
    return f"How long does {_subject(match)} take?", _answer(match)


def _is(match: Match) -> Form | None:
    answer = re.split(r" (?:with|of|for|to|in|that) ", _answer(match))[0]
    first = answer.split()[0] if answer.split() else ""
    if MONEY.search(answer) and _NUMBER.match(answer):
        return f"How much {match['verb']} {_subject(match)}?", answer
    if not (first in ("the", "a", "an") or first[:1].isupper() or _NUMBER.match(answer)):
        return None
    who = "Who" if _PERSON.match(answer) else "What"
    if TIME.match(answer) and not _NUMBER.match(answer):
        who = "When"
    return f"{who} {match['verb']} {_subject(match)}?", answer


def _how_often(match: Match) -> Form:
    often = re.split(r" (?:by|in|at|on|with) ", match["answer"])[0]
    return f"How often {match['verb']} {_subject(match)} {match['done']}?", often


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
    return f"When does {_subject(match)} {base}{match['particle']}?", match["answer"]


_OPENINGS = {"from": "From when", "until": "Until when", "within": "How soon", "by": "By when"}


def _done_when(match: Match) -> Form | None:
    """Ask by whom or when something is or must be done."""
    verb, _, be = match["verb"].partition(" ")
    done = f"{_subject(match)} {be} {match['done']}".replace("  ", " ")
    answer = re.split(r" at (?:least|most) ", _answer(match))[0]
    if match["preposition"] == "by" and _MEANS.match(answer):
        return f"How {verb} {done}?", answer
    if match["preposition"] == "by" and MONEY.search(match["answer"]):
        return f"By how much {verb} {done}?", answer
    if TIME.match(match["answer"]):
        units = re.match(r"\S+ ((?:working )?\w+s)\b", match["answer"])
        if match["preposition"] == "within" and units:
            return f"Within how many {units[1]} {verb} {done}?", answer
        return f"{_OPENINGS.get(match['preposition'], 'When')} {verb} {done}?", match["answer"]
    return (_who(match), answer) if match["preposition"] == "by" else None


def _to_whom(match: Match) -> Form:
    verb, _, rest = match["verb"].partition(" ")
    auxiliary = {"go": "do", "goes": "does"}.get(verb, verb)
    receiver = re.split(r" (?:in|at|on) ", match["answer"])[0]
    return f"Who {auxiliary} {_subject(match)} {rest or 'go'} to?", receiver


def _how_adjective(match: Match) -> Form:
    return f"How {match['adjective']} {match['verb']} {_subject(match)}?", match["answer"]


def _how_many_times(match: Match) -> Form:
    return f"How many times {match['verb']} {_subject(match)} {match['done']}?", match["answer"]


def _raises(match: Match) -> Form | None:
    base = _infinitive(match["verb"])
    return (f"What does {_subject(match)} {base}?", match["answer"]) if base else None


def _counted_first(match: Match) -> Form:
    return f"How many {match['things']} {match['rest']}?", match["answer"]


def _modal_measure(match: Match) -> Form:
    things = f"{match['things']}{match['before'] or ''}"
    question = f"How many {things} {match['modal']} {_subject(match)} {match['done']}?"
    return question, match["answer"]


def _if(match: Match) -> Form | None:
    condition = match["condition"].strip()
    words = condition.split()
    if len(words) > _LONGEST_CONDITION or words[0] in _PRONOUNS:
        return None
    return f"What {_HAPPENS[match['word'].casefold()]} {condition}?", match["answer"]


def _exception(match: Match) -> Form:
    rule = match["rule"].split(", which")[0]
    return f"What is the exception to this rule: {_inside(rule)}?", match["answer"]


def _denied(match: Match) -> Form | None:
    if match["what"].split()[-1] in ("that", "which", "who"):
        return None
    # "Staff must not smoke" is asked for as "May staff smoke?".
    modal = match["modal"].replace("must", "may").capitalize()
    return f"{modal} {_lower(match['what'])} {match['done']}?", DENIAL


def _denied_order(match: Match) -> Form:
    return f"May I {match['done']}?", DENIAL


def _has_none(match: Match) -> Form:
    verb = {"has": "Does", "have": "Do"}[match["verb"]]
    return f"{verb} {_lower(match['what'])} have {match['things']}?", DENIAL


def _stored(match: Match) -> Form | None:
    """Ask where something is done, or what it is written in."""
    # "Jury service is paid in full" names no place.
    if match["answer"] == "full" or TIME.match(match["answer"]) or _NUMBER.match(match["answer"]):
        return None
    if match["done"] == "written":
        return f"What {match['verb']} {_subject(match)} written in?", _answer(match)
    return f"Where {match['verb']} {_subject(match)} {match['done']}?", _answer(match)


def _inner_name(match: Match) -> Form:
    return f"What is the {match['what']} called?", match["answer"]


def _ordered_to(match: Match) -> Form:
    order = f"do I {match['verb'].lower()} {match['things']}"
    return f"Where {order}?" if match["place"] else f"Who {order} to?", match["answer"]


def _forbidden(match: Match) -> Form:
    return f"{match['modal'].capitalize()} {_lower(match['what'])} allowed?", DENIAL


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
_PRONOUNS = ("it", "they", "this", "that", "these", "those", "he", "she")
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
    r"shown|thrown|lent|left|brought|taken|set|shut|open)(?: back| out| off| away)?)"
)
_BE_OR_MUST = r"(?P<verb>is|are|was|were|(?:must|may|can|should|will) be)"
_COUNT = rf"(?P<answer>\d[\d,.]*|(?i:{'|'.join(NUMBERS)})) (?P<things>[a-z-]+s|people|children)\b"
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
    _rule(rf"{_BE} {_DONE} (?P<answer>\d+|{'|'.join(NUMBERS)}) times\b.*", _how_many_times),
    _rule(
        rf"(?P<verb>has|have|holds|carries) (?P<answer>\d[\d,.]*|{'|'.join(NUMBERS)}) "
        r"(?P<things>[a-z-]+s|people|children)\b.*",
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
    _rule(rf"{_BE} {_DONE} (?:{_PLACES}) (?P<answer>.+)", _stored),
    _rule(
        r"(?P<verb>goe?s?|(?:is|are|must be|may be) (?:sent|given|returned|reported|handed|brought|"
        r"shown|charged|lent|paid|mailed)) to (?P<answer>.+)",
        _to_whom,
    ),
    _rule(
        r"(?P<verb>[a-z]+s)(?P<particle>(?: off| on| out| up)?) (?:after|at|on|from|in) (?P<answer>.+)",
        _when_acts,
    ),
    _rule(
        rf"{_MODAL} (?P<done>[a-z]+(?: [a-z]+)?)(?: (?:at most|at least|up to))? {_COUNT}"
        r"(?P<before> before| ahead| in advance)?.*",
        _modal_measure,
    ),
    _rule(rf"(?P<verb>[a-z]+s)(?: (?:at most|at least|up to|about))? {_COUNT}.*", _measure),
    _rule(r"(?P<verb>raises|returns|requires|uses) (?P<answer>.+)", _raises),
    _rule(
        rf"(?P<verb>is|are) (?P<answer>(?:\d[\d.,]*|{'|'.join(NUMBERS)}) \w+) "
        r"(?P<adjective>long|wide|deep|high|tall|thick|heavy|old|far)\b.*",
        _how_adjective,
    ),
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
    (
        re.compile(r"^(?P<what>[A-Z][\w -]{2,40}?) (?P<verb>has|have) no (?P<things>[^,;]{3,60}).*$"),
        _has_none,
    ),
)
_LAST_RULES: Sequence[Rule] = (
    (
        re.compile(
            r"^(?P<verb>Report|Send|Give|Hand|Return|Show|Put|Keep|Store|Leave|Hang) "
            r"(?P<things>[^,;]{3,60}?) (?:to|(?P<place>into|in|on|under|behind)) (?P<answer>[^,;]+)"
        ),
        _ordered_to,
    ),
    (re.compile(r"^(?P<what>[A-Z][\w -]{2,60}?) (?P<modal>is|are) (?:forbidden|prohibited)\b"), _forbidden),
    (re.compile(r"^(?P<answer>.{12,160}?),? (?P<word>if|when) (?P<condition>[^,]+)$"), _if),
    (
        re.compile(r"^.*\b(?:a|an|the) (?P<what>[a-z]+(?: [a-z]+)?) called (?P<answer>[\w-]+.*)$"),
        _inner_name,
    ),
)
_VERBS = (
    "is|are|was|were|has|have|must|may|can|should|will|costs?|holds|weighs?|takes|lasts|opens|closes|starts|begins|"
    "ends|leaves|measures|works|pays|runs|sends|stands|hangs|lies|goes|needs|reads|answers|expires?|meets|removes"
)
_SUBJECT = re.compile(
    rf"^(?P<subject>(?!(?i:{_NOT_SUBJECTS})\b)[A-Z][\w'-]*(?: (?!(?:{_VERBS}|and|or) )[\w'/-]+){{0,7}})"
    rf" (?:{_VERBS}) "
)
_TIME_AND_AGENT = re.compile(
    rf"^(?P<what>.+? (?:is|are|was|were) {_DONE}) (?P<time>(?:in|on) [^,]+?) (?P<by>by [A-Z].*)$"
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
