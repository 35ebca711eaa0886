"""Questions made from a text, each with the word that a right answer must have.

Every sentence is asked for as a gap to fill and, where it says what something is, as a question.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from attangent._random import generator
from attangent.compression.text import sentences_of

AT_MOST = 48
_TELLS = re.compile(
    r"^(?P<what>.{3,90}?) (?P<verb>is|are|was|were) (?P<called>called )?(?P<answer>.+?)[.!;:]*$"
)
_PERSON = re.compile(r"^([A-Z][\w'-]+ ){1,2}[A-Z][\w'-]+$")
_POINTING = {"this", "that", "these", "those", "it", "he", "she", "they", "there", "here", "what"}
_SMALL = {"about", "after", "also", "before", "from", "have", "into", "must", "only", "that", "their"}
_SMALL |= {"there", "they", "this", "were", "with"}


@dataclass(frozen=True)
class Question:
    """What is asked, and a word that the answer must have."""

    text: str
    expected: str


def questions_from(text: str, chat: bool, at_most: int = AT_MOST, seed: int = 0) -> list[Question]:
    """Questions on the sentences of a text, in the order of the text; a random choice where there are more.

    Behind a chat they are turns of a user, behind plain text they are lines to be continued.
    """
    forms = _turns if chat else _lines
    found = [question for sentence in sentences_of(text) for question in forms(sentence)]
    found = list(dict.fromkeys(found))
    chosen = torch.randperm(len(found), generator=generator(seed, "questions"))[:at_most]
    return [found[place] for place in sorted(chosen.tolist())]


def _turns(sentence: str) -> Iterator[Question]:
    head, word = _gap(sentence)
    if word:
        yield Question(f'Complete this sentence from the text above: "{head} ..."', word)
    asked, word = _asked(sentence)
    if word:
        yield Question(asked, word)


def _lines(sentence: str) -> Iterator[Question]:
    head, word = _gap(sentence)
    if word:
        yield Question(f"\n\nAs said above: {head}", word)
    asked, word = _asked(sentence)
    if word:
        yield Question(f"\n\nQuestion: {asked}\nAnswer:", word)


def _gap(sentence: str) -> tuple[str, str]:
    """The sentence up to the word that says most, and that word; empty where there is none."""
    words = sentence.split()
    place = _telling([_plain(word) for word in words], first=min(2, len(words)))
    if place is None:
        return "", ""
    start = place
    while start > 2 and words[start - 1][:1].isupper():
        start -= 1  # a name is asked for as a whole
    head, word = " ".join(words[:start]), _plain(words[place])
    return (head, word) if word.casefold() not in head.casefold() else ("", "")


def _asked(sentence: str) -> tuple[str, str]:
    """A sentence that says what something is as a question, and the word that answers it."""
    found = _TELLS.match(sentence)
    if found is None:
        return "", ""
    if found["what"].casefold() in _POINTING:
        return "", ""
    what, answer = found["what"], found["answer"].split(",")[0].split(" and ")[0].split(" who ")[0]
    words = [_plain(word) for word in answer.split()]
    place = _telling(words, first=0)
    if place is None or words[place].casefold() in what.casefold():
        return "", ""
    who = "Who" if _PERSON.match(answer) and not found["called"] else "What"
    opening = what if what.split()[0] not in ("The", "A", "An", "This", "Its") else what[0].lower() + what[1:]
    called = " called" if found["called"] else ""
    return f"{who} {found['verb']} {opening}{called}?", words[place]


def _telling(words: Sequence[str], first: int) -> int | None:
    """The place, from `first` on, of the last number or name, or else of the longest word of four letters."""
    places = [place for place in range(first, len(words)) if words[place]]
    named = [place for place in places if words[place][0].isupper() or words[place][0].isdigit()]
    if named:
        return named[-1]
    long = [place for place in places if len(words[place]) > 3 and words[place] not in _SMALL]
    return max(long, key=lambda place: (len(words[place]), place), default=None)


def _plain(word: str) -> str:
    """A word without the marks around it."""
    return re.sub(r"^\W+|\W+$|'s$", "", word)
