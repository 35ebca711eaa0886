"""Questions made from a text, each with the word that a right answer must have.

Every sentence is asked for as a gap to fill and, where it can be turned into one, as a question. A gap is an
answer that has been begun: small models do not follow "complete this sentence".
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

from attangent._core.random import generator
from attangent.compression.quiz.forms import NUMBERS, asked_forms
from attangent.compression.text import sentences_of

AT_MOST = 48
_ENOUGH = 24
"""Where there are fewer questions, words that are neither names nor numbers are asked for too."""
_COMMON = 2
"""A word that stands in the text more often than this says nothing when it stands in an answer."""
_TELL = "What does the text say?"
"""What is asked where the answer is begun."""
_HEAD = 3
"""With so many words at least a gap's sentence begins."""
_SMALL = {
    "about",
    "after",
    "also",
    "always",
    "before",
    "beside",
    "between",
    "from",
    "have",
    "into",
    "must",
    "only",
}
_SMALL |= {"that", "their", "there", "they", "this", "until", "were", "when", "which", "whom", "with", "your"}


class Asked(NamedTuple):
    """What is asked, the word that says most, and the words of the answer up to it."""

    text: str
    word: str
    answer: str


@dataclass(frozen=True)
class Question:
    """What is asked, and a word that the answer must have.

    begun: words with which the answer is begun, if any; rest: those with which it should go on, up to the
    expected one.
    """

    text: str
    expected: str
    begun: str = ""
    rest: str = ""

    @property
    def shown(self) -> str:
        """The question with the beginning of its answer."""
        return f"{self.text.strip()} {self.begun.strip()} ..." if self.begun else self.text


def questions_from(text: str, chat: bool, at_most: int = AT_MOST, seed: int = 0) -> list[Question]:
    """Questions on the sentences of a text, in the order of the text; at most so many.

    Where there are more, gaps are left out first, and which ones is drawn. Gaps without a name or a number
    say little: they are asked for only where there is hardly anything else. Behind a chat questions are turns
    of a user, behind plain text they are lines to be continued.
    """
    prose = plain_prose(text)
    sentences, counts = sentences_of(prose), Counter(map(str.casefold, map(_plain, prose.split())))
    asked = _found(sentences, _asked, counts, _turn if chat else _line)
    gaps = _found(sentences, _gaps, counts, _begun_turn if chat else _begun_line)
    facts = {gap: place for gap, place in gaps.items() if _names(gap.expected)}
    few = _drawn(asked, at_most, seed)
    few |= _drawn(facts, at_most - len(few), seed)
    words = {gap: place for gap, place in gaps.items() if gap not in facts}
    few |= _drawn(words, min(at_most, _ENOUGH) - len(few), seed)
    return sorted(few, key=few.__getitem__)


def plain_prose(text: str) -> str:
    """A text without the marks of Markdown, its headings and its tables."""
    lines = [line for line in text.splitlines() if not re.match(r"\s*(#|\||```|---|===)", line)]
    lines = [re.sub(r"^\s*([-*+>]|\d+[.)])\s+", "", line) for line in lines]
    prose = re.sub(r"\[([^\[\]\n]{1,200})\]\([^()\n]{0,400}\)", r"\1", "\n".join(lines))
    return re.sub(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", prose)


def _found(
    sentences: Sequence[str],
    asked_in: Callable[[str], Iterator[Asked]],
    counts: Mapping[str, int],
    form: Callable[[Asked], Question],
) -> dict[Question, int]:
    """Questions with the numbers of their sentences; those that any answer meets are left out."""
    found: dict[Question, int] = {}
    for place, sentence in enumerate(sentences):
        for one in asked_in(sentence):
            word = one.word.casefold()
            if word and counts.get(word, 0) <= _COMMON and word not in one.text.casefold():
                found.setdefault(form(one), place)
    return found


def _drawn(found: Mapping[Question, int], at_most: int, seed: int) -> dict[Question, int]:
    chosen = torch.randperm(len(found), generator=generator(seed, "questions"))[: max(0, at_most)]
    questions = list(found)
    return {questions[place]: found[questions[place]] for place in sorted(chosen.tolist())}


def _turn(asked: Asked) -> Question:
    return Question(asked.text, asked.word)


def _line(asked: Asked) -> Question:
    return Question(f"\n\nQuestion: {asked.text}\nAnswer:", asked.word)


def _begun_turn(asked: Asked) -> Question:
    return Question(_TELL, asked.word, asked.text, f" {asked.answer}")


def _begun_line(asked: Asked) -> Question:
    return Question("\n\nAs said above:", asked.word, f" {asked.text}", f" {asked.answer}")


def _gaps(sentence: str) -> Iterator[Asked]:
    """The sentence up to the word that says most, and that word; nothing where there is none."""
    words = sentence.split()
    place = _telling([_plain(word) for word in words], first=min(_HEAD, len(words)))
    if place is not None:
        start = place
        while start > _HEAD and words[start - 1][:1].isupper():
            start -= 1  # a name is asked for as a whole
        word, answer = _plain(words[place]), " ".join(words[start : place + 1])
        yield Asked(" ".join(words[:start]), word, answer[: answer.rindex(word) + len(word)])


def _asked(sentence: str) -> Iterator[Asked]:
    """Questions that the sentence answers, and the word of the answer that says most."""
    for asked, answer in asked_forms(sentence):
        words = [_plain(word) for word in answer.split()]
        place = _telling(words, first=0)
        if place is not None:
            yield Asked(asked, words[place], answer)


def _telling(words: Sequence[str], first: int) -> int | None:
    """The place, from `first` on, of the last number or name, or else of the longest word of four letters."""
    places = [place for place in range(first, len(words)) if words[place]]
    named = [place for place in places if _names(words[place])]
    if named:
        return named[-1]
    long = [place for place in places if len(words[place]) > 3 and words[place] not in _SMALL]
    return max(long, key=lambda place: (len(words[place]), place), default=None)


def _names(word: str) -> bool:
    return word[0].isupper() or word[0].isdigit() or word.casefold().split("-")[0] in NUMBERS


def _plain(word: str) -> str:
    """A word without the marks around it."""
    return re.sub(r"^\W+|\W+$|'s$", "", word)
