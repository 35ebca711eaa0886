"""Questions made from a text, each with the word that a right answer must contain.

Every sentence becomes a gap to fill and, if a rule matches, a question. A gap is an answer that has been
begun: small models do not follow "complete this sentence".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch

from attangent._core.random import generator
from attangent.compression.text import sentences_of

MOST_QUESTIONS = 48
# With fewer questions than this, gaps whose word is neither a name nor a number are used too.
_ENOUGH = 24
# A word that occurs more often than this in the text proves nothing in an answer.
_COMMON = 2
# The question before an answer that has been begun.
_TELL = "What does the text say?"
# Minimum number of words before a gap.
_HEAD = 3
_SMALL = frozenset(
    {
        *("about", "after", "also", "always", "before", "beside", "between", "from", "have", "into"),
        *("must", "only", "that", "their", "there", "they", "this", "until", "were", "when", "which"),
        *("whom", "with", "your"),
    }
)
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

# Maximum letters of a sentence: anything longer is no sentence, and patterns take long on it.
_LONGEST = 600

Match = re.Match[str]
# A question and the words that answer it.
Form = tuple[str, str]


class QuestionCandidate(NamedTuple):
    """A question, its most telling word, and the words of the answer up to that word."""

    text: str
    word: str
    answer: str


@dataclass(frozen=True)
class Question:
    """A question and a word that the answer must contain.

    Attributes:
        text: The question.
        expected: The word.
        begun: Words with which the answer is begun, if any.
        rest: Words with which it should continue, up to the expected one.
    """

    text: str
    expected: str
    begun: str = ""
    rest: str = ""

    @property
    def shown(self) -> str:
        """Return the question with the beginning of its answer."""
        return f"{self.text.strip()} {self.begun.strip()} ..." if self.begun else self.text


def questions_from(text: str, chat: bool, at_most: int = MOST_QUESTIONS, seed: int = 0) -> list[Question]:
    """Make questions on the sentences of a text, in the order of the text.

    If there are too many, gaps are dropped first, at random. Gaps without a name or a number are used only if
    there is hardly anything else.

    Args:
        text: The text; Markdown marks are ignored.
        chat: Whether questions are turns of a user or lines to continue.
        at_most: Maximum number of questions.
        seed: Seed of the choice.
    """
    # Words are counted in the prose alone: Markdown marks would hide repeated words.
    prose = plain_prose(text)
    sentences = sentences_of(prose)
    counts = Counter(map(str.casefold, map(_plain, prose.split())))
    asked = _questions(sentences, _asked, counts, partial(_asked_as, chat=chat))
    gaps = _questions(sentences, _gaps, counts, partial(_begun_as, chat=chat))
    facts = {gap: index for gap, index in gaps.items() if _is_name(gap.expected)}
    chosen = _drawn(asked, at_most, seed)
    chosen |= _drawn(facts, at_most - len(chosen), seed)
    words = {gap: index for gap, index in gaps.items() if gap not in facts}
    chosen |= _drawn(words, min(at_most, _ENOUGH) - len(chosen), seed)
    return sorted(chosen, key=chosen.__getitem__)


def plain_prose(text: str) -> str:
    """Remove Markdown marks, headings and tables."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|\||```|---|===)", line)]
    lines = [re.sub(r"^\s*([-*+>]|\d+[.)])\s+", "", line) for line in lines]
    prose = re.sub(r"\[([^\[\]\n]{1,200})\]\([^()\n]{0,400}\)", r"\1", "\n".join(lines))
    return re.sub(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", prose)


def _questions(
    sentences: Sequence[str],
    candidates: Callable[[str], Iterator[QuestionCandidate]],
    counts: Mapping[str, int],
    form: Callable[[QuestionCandidate], Question],
) -> dict[Question, int]:
    """Return questions with the index of their sentence, without those that any answer would meet."""
    questions: dict[Question, int] = {}
    for index, sentence in enumerate(sentences):
        for candidate in candidates(sentence):
            word = candidate.word.casefold()
            if word and counts.get(word, 0) <= _COMMON and word not in candidate.text.casefold():
                questions.setdefault(form(candidate), index)
    return questions


def _drawn(indices: Mapping[Question, int], at_most: int, seed: int) -> dict[Question, int]:
    chosen = torch.randperm(len(indices), generator=generator(seed, "questions"))[: max(0, at_most)]
    questions = list(indices)
    return {questions[i]: indices[questions[i]] for i in sorted(chosen.tolist())}


def _asked_as(asked: QuestionCandidate, chat: bool) -> Question:
    return Question(asked.text if chat else f"\n\nQuestion: {asked.text}\nAnswer:", asked.word)


def _begun_as(asked: QuestionCandidate, chat: bool) -> Question:
    if chat:
        return Question(_TELL, asked.word, asked.text, f" {asked.answer}")
    return Question("\n\nAs said above:", asked.word, f" {asked.text}", f" {asked.answer}")


def _gaps(sentence: str) -> Iterator[QuestionCandidate]:
    """Yield the sentence up to its most telling word, if it has one, and that word."""
    words = sentence.split()
    index = _telling([_plain(word) for word in words], first=min(_HEAD, len(words)))
    if index is None:
        return
    start = index
    while start > _HEAD and words[start - 1][:1].isupper():
        start -= 1  # ask for the full name, not for its last word
    word = _plain(words[index])
    answer = " ".join(words[start : index + 1])
    yield QuestionCandidate(" ".join(words[:start]), word, answer[: answer.rindex(word) + len(word)])


def _asked(sentence: str) -> Iterator[QuestionCandidate]:
    """Yield questions that the sentence answers, and the most telling word of each answer."""
    for question, answer in question_forms(sentence):
        words = [_plain(word) for word in answer.split()]
        index = _telling(words, first=0)
        if index is not None:
            yield QuestionCandidate(question, words[index], answer)


def _telling(words: Sequence[str], first: int) -> int | None:
    """Return the index, from `first` on, of the last number or name, else of the longest long word."""
    indices = [index for index in range(first, len(words)) if words[index]]
    named = [index for index in indices if _is_name(words[index])]
    if named:
        return named[-1]
    long = [index for index in indices if len(words[index]) > 3 and words[index] not in _SMALL]
    return max(long, key=lambda index: (len(words[index]), index), default=None)


def _is_name(word: str) -> bool:
    """Return whether a word is a name or a number."""
    return word[0].isupper() or word[0].isdigit() or word.casefold().split("-")[0] in NUMBERS


def _plain(word: str) -> str:
    """Remove the punctuation around a word."""
    return re.sub(r"^\W+|\W+$|'s$", "", word)


def question_forms(sentence: str) -> Iterator[Form]:
    """Yield the questions that a sentence answers, clause by clause; none if no rule matches."""
    if len(sentence) > _LONGEST:
        return
    for clause in _clauses(sentence):
        # Rules are ordered from specific to general: the first match decides.
        for pattern, ask in _RULES:
            match = pattern.match(clause)
            form = ask(match) if match else None
            if form:
                yield form
                break


def _clauses(sentence: str) -> list[str]:
    """Cut a sentence before each new subject: "the net is called A and the word is B"."""
    parts = re.split(
        r",? (?:and|but|while) (?=(?:the|a|an|its) )|, (?=the \w+ (?:is|are|was|were) )", sentence
    )
    return [part.strip().rstrip(".!;:") for part in parts]


def _subject(match: Match) -> str:
    what = match["what"]
    first = what.split()[0]
    return what[0].lower() + what[1:] if first in ("The", "A", "An", "Its", "Our", "Your") else what


def _answer(match: Match) -> str:
    return re.split(r",| and (?!\d)| who | which | where | between | because ", match["answer"])[0]


def _cost(match: Match) -> Form:
    do = "do" if match["verb"] == "cost" else "does"
    return f"How much {do} {_subject(match)} cost?", _answer(match)


def _called(match: Match) -> Form:
    return f"What {match['verb']} {_subject(match)} called?", _answer(match)


def _by_whom(match: Match) -> Form:
    name = re.match(r"(?:the )?(?:[A-Z][\w'-]*\.? ?|aunt |uncle )+", match["answer"])
    return f"By whom {match['verb']} {_subject(match)} {match['done']}?", name[0] if name else _answer(match)


def _when_done(match: Match) -> Form:
    return f"When {match['verb']} {_subject(match)} {match['done']}?", match["answer"]


def _where(match: Match) -> Form:
    asked = "When" if _TIME.match(match["answer"]) else "Where"
    verb = match["verb"] if match["verb"] in ("is", "are", "was", "were") else "is"
    return f"{asked} {verb} {_subject(match)}?", _answer(match)


def _how_many(match: Match) -> Form:
    do = "do" if match["verb"] == "have" else "does"
    return f"How many {match['things']} {do} {_subject(match)} have?", match["answer"]


def _when_does(match: Match) -> Form | None:
    if not _TIME.match(match["answer"]):
        return None
    return f"When does {_subject(match)} {_DOES[match['verb']]}?", _answer(match)


def _how_long(match: Match) -> Form | None:
    if not _NUMBER.match(match["answer"]):
        return None
    return f"How long does {_subject(match)} take?", _answer(match)


def _is(match: Match) -> Form | None:
    answer = _answer(match)
    first = answer.split()[0] if answer.split() else ""
    if _MONEY.search(answer) and _NUMBER.match(answer):
        return f"How much {match['verb']} {_subject(match)}?", answer
    if not (first in ("the", "a", "an") or first[:1].isupper() or _NUMBER.match(answer)):
        return None
    who = "Who" if _PERSON.match(answer) else "What"
    return f"{who} {match['verb']} {_subject(match)}?", answer


def _rule(
    rest: str, ask: Callable[[Match], Form | None]
) -> tuple[re.Pattern[str], Callable[..., Form | None]]:
    no = f"(?i:{_NOT_SUBJECTS})"
    return re.compile(_WHAT.format(no=no) + " " + rest + "$"), ask


_BE = "(?P<verb>is|are|was|were)"
_DONE = r"(?P<done>\w+ed|built|made|kept|held|taught|given|run|sold|led|written|drawn|bought|found|grown|won)"
_RULES: Sequence[tuple[re.Pattern[str], Callable[..., Form | None]]] = (
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
