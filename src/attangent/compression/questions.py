"""Questions made from a text: facts of its sentences, tables, lists and code, asked for in several ways."""

import re
from ast import literal_eval
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from attangent._core.random import generator
from attangent.compression.matching import DENIAL, SMALL, holds_words
from attangent.compression.rules import AskedFact, sentence_facts
from attangent.compression.rules.answers import NUMBER, telling_word, telling_words
from attangent.compression.rules.clauses import with_subjects
from attangent.compression.rules.german import is_german
from attangent.compression.text import sentences_of

MOST_FACTS = 56
_FORMS = 2
# A word that occurs more often than this in the text proves nothing in an answer.
_COMMON = 2
_LONGEST_VALUE = 4
_LONGEST_TERM = 6
_TERM = re.compile(r"^(?P<term>[^.:;]{2,60}?)\s*(?:[:=]|\s[–—-])\s+(?P<value>\S.*)$")
_FINITE = re.compile(r" (?:is|are|was|were|has|have) ")
_PLURAL = re.compile(r"[^isu]s$")
_NEXT_SENTENCE = re.compile(r"(?<=[.;]) ")
_STEP = re.compile(r"^\s*(?P<number>\d{1,3})[.)]\s+(?P<step>.+)$")
_ASSIGNED = re.compile(
    r"""^\s*(?:const |let |var |export |set )?["']?(?P<name>[A-Za-z_][\w.-]*)["']?\s*"""
    r"""(?::\s*[\w\[\], |]+?\s*)?(?:=|:)\s*["']?(?P<value>[^"'#;,(){}]+?)["']?\s*[;,]?\s*(?:(?:#|//).*)?$"""
)
_SIGNATURE = re.compile(
    r"^\s*(?:async )?(?:def|function|fn|func)\s+(?P<name>\w+)\s*\((?P<arguments>[^()]*)\)"
)
_DEFAULT = re.compile(r"(?P<name>\w+)\s*(?::[^=,]+)?=\s*[\"']?(?P<value>[^\"',]+)")
Kind = Literal["prose", "table", "list", "code"]

_FENCE = re.compile(r"^\s*(```|~~~)")
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+(.+?)\s*#*$")
_UNDERLINE = re.compile(r"^\s*(={3,}|-{3,}|\*{3,})\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_CODE = re.compile(
    r"^\s*(?:(?:def|class|import|from|return|elif|else|for|while|try|except|const|let|var|function|fn|public|"
    r"private|export|SELECT|INSERT|UPDATE)\b.*[:;({)\w]$|[\w.\[\]\"']+\s*(?::\s*\w+\s*)?[-+*/]?=\s*\S|[{}()\[\]];?,?$"
    r"|.*[;{]$|\$ \w|@\w+)"
)
_WRAPPED = 50
_LABEL_WORDS = 6
_SHOWN_PARTS = 5
_TITLE_WORDS = 8


@dataclass(frozen=True)
class Part:
    """Consecutive lines of one kind.

    Attributes:
        kind: Kind of the lines.
        heading: The heading above them, if any.
        lines: The lines without Markdown marks; code is unchanged.
    """

    kind: Kind
    heading: str
    lines: tuple[str, ...]

    @property
    def label(self) -> str:
        """Return a short name: its heading and first words."""
        words = " ".join(" ".join(self.lines).split()[:_LABEL_WORDS])
        return f"{self.heading}: {self.kind} {words!r}" if self.heading else f"{self.kind} {words!r}"

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of prose and of list items; tables and code have none."""
        if self.kind not in ("prose", "list"):
            return []
        lines = [_without_item(line) for line in self.lines] if self.kind == "list" else self.lines
        return [sentence for line in lines for sentence in sentences_of(line)]


def parts_of(text: str) -> list[Part]:
    """Split a text at blank lines and headings, and wherever its kind changes."""
    parts: list[Part] = []
    heading = ""
    for kind, lines in _runs(text):
        if kind == "heading" or (kind == "prose" and _is_title(lines)):
            heading = plain_line(lines[0])
        elif kind == "code":
            parts.append(Part("code", heading, tuple(lines)))
        else:
            cleaned = tuple(_joined([plain_line(line) for line in lines], kind))
            parts.append(Part(kind, heading, cleaned))  # type: ignore[arg-type]
    return parts


def _is_title(lines: Sequence[str]) -> bool:
    """Return whether a paragraph is a heading without marks: one short line that is no sentence."""
    return len(lines) == 1 and len(lines[0].split()) <= _TITLE_WORDS and lines[0].rstrip()[-1].isalnum()


def plain_line(line: str) -> str:
    """Remove Markdown marks from a line."""
    line = re.sub(r"^\s*(#{1,6}|>)\s+", "", line)
    line = re.sub(r"\[([^\[\]\n]{1,200})\]\([^()\n]{0,400}\)", r"\1", line)
    return re.sub(r"\*\*|__|`|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)", "", line).strip()


def _runs(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield runs of lines of one kind; a run ends at a blank line, except within a fence."""
    run: list[str] = []
    kind = ""
    fenced = False
    for line in [*text.splitlines(), ""]:
        if _FENCE.match(line):
            fenced = not fenced
            now = ""
        elif fenced:
            now = "code"
        else:
            now = _kind_of(line, kind)
        if run and (now != kind or now == "heading"):
            yield kind, run
            run = []
        if now:
            run.append(line)
        kind = now


def _kind_of(line: str, before: str) -> str:
    """Return the kind of a line outside of a fence; empty for a blank line or a rule."""
    if not line.strip() or _UNDERLINE.match(line):
        return ""
    if _HEADING.match(line):
        return "heading"
    if line.lstrip().startswith("|") or line.count("\t") > 0:
        return "table"
    if _ITEM.match(line):
        return "list"
    if before == "list" and line.startswith(("  ", "\t")):
        return "list"
    return "code" if _CODE.match(line) or (before == "code" and line.startswith("  ")) else "prose"


def _joined(lines: Sequence[str], kind: str) -> Iterator[str]:
    """Join the lines of a wrapped paragraph or list item."""
    if kind == "table":
        yield from lines
        return
    current = ""
    for line in lines:
        starts = kind == "list" and _ITEM.match(line)
        wrapped = not starts and (kind == "list" or (len(current) > _WRAPPED and current[-1] not in ".!?:;"))
        if current and not wrapped:
            yield current
            current = ""
        current = f"{current} {line}".strip()
    if current:
        yield current


def _without_item(line: str) -> str:
    return _ITEM.sub("", line)


def cells_of(part: Part) -> list[list[str]]:
    """Return the rows of a table without the line that separates its header."""
    rows = [re.split(r"\t+|(?<!\\)\|", line.strip().strip("|")) for line in part.lines]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [row for row in cells if not all(re.fullmatch(r":?-+:?|", cell) for cell in row)]


@dataclass(frozen=True)
class Question:
    """A question and the words that the answer must contain.

    Attributes:
        text: The question.
        expected: The words; alternatives are separated by "|".
        fact: Number of the fact that it asks for: several questions may ask for one.
        part: Label of the part of the text that has the fact.
    """

    text: str
    expected: str
    fact: int = 0
    part: str = ""


def questions_from(text: str, chat: bool, at_most: int = MOST_FACTS, seed: int = 0) -> list[Question]:
    """Make questions on the facts of a text, in the order of the text.

    Facts are drawn at random, in turn from every part, until there are enough. No question occurs with two
    answers, and none contains its answer.

    Args:
        text: The text, plain or Markdown.
        chat: Whether questions are turns of a user or lines to continue.
        at_most: Maximum number of facts.
        seed: Seed of the draw.
    """
    parts = parts_of(text)
    german = is_german(text)
    counts = Counter(re.findall(r"\w[\w.,:'-]*\w|\w", text.casefold()))
    facts = [_usable(part_facts(part, german), counts, part.kind) for part in parts]
    expected = _answers_by_form(facts)
    questions: list[Question] = []
    clear = [
        [fact for fact in part if any(len(expected[form.casefold()]) == 1 for form in fact.forms)]
        for part in facts
    ]
    for number, (index, fact) in enumerate(_drawn(clear, at_most, seed)):
        forms = [form for form in fact.forms if len(expected[form.casefold()]) == 1]
        label = parts[index].label
        questions += [Question(form, fact.expected, number, label) for form in forms[:_FORMS]]
    return questions if chat else [replace(each, text=as_line(each.text, german)) for each in questions]


def forms_of(questions: Sequence[Question]) -> list[list[Question]]:
    """Return the first question on each fact, then the second on those that have one, and so on."""
    forms: list[list[Question]] = []
    seen: Counter[int] = Counter()
    for question in questions:
        if seen[question.fact] == len(forms):
            forms.append([])
        forms[seen[question.fact]].append(question)
        seen[question.fact] += 1
    return forms


def unasked_parts(text: str, questions: Sequence[Question]) -> list[str]:
    """Return the labels of the parts of a text on which there is no question."""
    asked = {question.part for question in questions}
    return [part.label for part in parts_of(text) if part.label not in asked]


def unasked_line(labels: Sequence[str]) -> str:
    """Return a line that names the parts on which no question counts, from their labels."""
    parts = "1 part" if len(labels) == 1 else f"{len(labels)} parts"
    names = list(dict.fromkeys(map(_name_of, labels)))
    others = "; report.json names all" if len(names) > _SHOWN_PARTS else ""
    return f"no question counts on {parts} of the text: {', '.join(names[:_SHOWN_PARTS])}{others}"


def _name_of(label: str) -> str:
    """Return the heading in a part's label, or its first words if it has none, in quotes."""
    match = re.fullmatch(r"(?:(.+?): )?(?:prose|table|list|code) ((['\"]).*\3)", label)
    if match is None:
        return f'"{label}"'
    heading, quoted, _ = match.groups()
    if heading:
        return f'"{heading}"'
    words = literal_eval(quoted)
    return f'"{words} ..."' if len(words.split()) == _LABEL_WORDS else f'"{words}"'


def part_facts(part: Part, german: bool = False) -> list[AskedFact]:
    """Return all facts of a part."""
    if part.kind == "table":
        return list(_table_facts(part, german))
    if part.kind == "code":
        return list(_code_facts(part))
    facts = [fact for line in part.lines for fact in _term_facts(line, german)]
    facts += _step_facts(part, german) if part.kind == "list" else []
    terms = {fact.expected for fact in facts}
    sentences = [
        fact for sentence in with_subjects(part.sentences) for fact in sentence_facts(sentence, german)
    ]
    return facts + [fact for fact in sentences if fact.expected not in terms]


def _table_facts(part: Part, german: bool) -> Iterator[AskedFact]:
    """Yield one fact per cell: the column's header and the row's first cell name it."""
    rows = cells_of(part)
    for row in rows[1:]:
        for header, cell in list(zip(rows[0], row, strict=False))[1:]:
            value = _value(cell)
            if not (value and header and row[0]):
                continue
            column = header if header.isupper() else header[0].lower() + header[1:]
            is_noun = len(column.split()) <= 2 and column.split()[0] not in SMALL
            be = "are" if _PLURAL.search(column) else "is"
            by_row = f"{row[0]}: {column}?"
            if german:
                yield AskedFact(value, (f"Was steht bei {row[0]} unter {header}?", by_row))
            else:
                question = f"What {be} the {column} of {row[0]}?"
                yield AskedFact(value, (question, by_row) if is_noun else (by_row,))


def _term_facts(line: str, german: bool) -> Iterator[AskedFact]:
    """Yield the fact of a line such as "Deposit: 50 euros"."""
    match = _TERM.match(re.sub(r"^\s*[-*+•]\s+", "", line))
    if match is None or len(match["term"].split()) > _LONGEST_TERM:
        return
    value = re.split(_NEXT_SENTENCE, match["value"])[0].rstrip(".")
    # "Ann: The tests are slow" in a chat says who speaks.
    if _value(value) and (_ITEM.match(line) or not _FINITE.search(value)):
        term = match["term"].strip()
        yield AskedFact(_value(value), (*_term_question(term, value, german), f"{term}?"))


def _term_question(term: str, value: str, german: bool) -> list[str]:
    """Return the question that a person would ask about a term, or none if the value may be an order."""
    if german:
        return [f"Was steht bei {term}?"]
    if _FINITE.search(value) and not _FINITE.search(term):
        return [f"What {'do' if _PLURAL.search(term) else 'does'} {term} mean?"]
    is_noun = len(value.split()) == 1 or re.match(rf"{NUMBER}|[^a-z]|(?:the|an?) ", value)
    if len(value.split()) > _LONGEST_VALUE or not is_noun:
        return []
    is_name = term.split()[0].casefold() in SMALL or term[:1].isdigit()
    return [f"What is {term}?" if is_name else f"What is the {term}?"]


def _step_facts(part: Part, german: bool) -> Iterator[AskedFact]:
    """Yield the facts of numbered steps."""
    for line in part.lines:
        match = _STEP.match(line)
        if match is None:
            continue
        # An order begins with its verb, and what comes after it is a remark.
        order = re.split(_NEXT_SENTENCE, match["step"])[0]
        words = telling_words(order.partition(" ")[2])
        under = f" ({part.heading})" if part.heading else ""
        step = "Was ist Schritt" if german else "What is step"
        if words:
            yield AskedFact("|".join(words), (f"{step} {match['number']}{under}?",))


def _code_facts(part: Part) -> Iterator[AskedFact]:
    """Yield the facts of assignments, of settings and of the defaults of arguments."""
    for line in part.lines:
        signature = _SIGNATURE.match(line)
        if signature:
            for default in _DEFAULT.finditer(signature["arguments"]):
                name = f"{default['name']} in {signature['name']}"
                yield AskedFact(
                    default["value"].strip(), (f"What is the default of {name}?", f"{name}: default?")
                )
            continue
        match = _ASSIGNED.match(line)
        value = match["value"].strip() if match else ""
        if match and value and len(value.split()) <= _LONGEST_VALUE and value != match["name"]:
            name = match["name"]
            yield AskedFact(value, (f"What is the value of {name}?", f"What is {name} set to?"))


def _value(cell: str) -> str:
    """Return a single word unchanged, and the telling word of several: a number without its unit."""
    return cell if len(cell.split()) == 1 and any(map(str.isalnum, cell)) else telling_word(cell)


def _usable(facts: Sequence[AskedFact], counts: Mapping[str, int], kind: str) -> list[AskedFact]:
    """Return the facts whose words are rare enough to prove something, without forms that contain them."""
    usable: dict[AskedFact, None] = {}
    for fact in facts:
        # The row or name identifies a cell or a value; the same value may stand elsewhere too.
        anywhere = kind in ("table", "code") or fact.expected == DENIAL
        words = [
            word for word in fact.expected.split("|") if anywhere or counts.get(word.casefold(), 0) <= _COMMON
        ]
        expected = "|".join(words)
        forms = tuple(form for form in fact.forms if not holds_words(form, expected))
        if forms and expected:
            usable[AskedFact(expected, forms)] = None
    return list(usable)


def _answers_by_form(facts: Sequence[Sequence[AskedFact]]) -> dict[str, set[str]]:
    """Return, for each question, all words that are expected of it."""
    expected: dict[str, set[str]] = {}
    for part in facts:
        for fact in part:
            for form in fact.forms:
                expected.setdefault(form.casefold(), set()).add(fact.expected.casefold())
    return expected


def _drawn(facts: Sequence[Sequence[AskedFact]], at_most: int, seed: int) -> list[tuple[int, AskedFact]]:
    """Draw facts in turn from every part, at random within each; return them in the order of the text."""
    draw = generator(seed, "questions")
    orders = [torch.randperm(len(part), generator=draw).tolist() for part in facts]
    rounds = max(map(len, orders), default=0)
    turns = [
        (index, order[turn])
        for turn in range(rounds)
        for index, order in enumerate(orders)
        if turn < len(order)
    ]
    return [(index, facts[index][place]) for index, place in sorted(turns[:at_most])]


def as_line(question: str, german: bool) -> str:
    """Return a question as a line that a model continues, for models without a chat template."""
    heading, answer = ("Frage", "Antwort") if german else ("Question", "Answer")
    return f"\n\n{heading}: {question}\n{answer}:"
