"""Parts of a text: prose, tables, lists and code, each under its heading."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from attangent.compression.text import sentences_of

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
