"""How docstrings become Markdown on the reference pages: an extension of griffe, named in mkdocs.yml.

Sessions (`>>>`) become code blocks and lines `name: what it is` a list. Signs of formulas that have a meaning
in Markdown (*, <, [, |) are escaped.
"""

import re
from typing import Any

import griffe

FIELD = re.compile(r"^(\w+(?:, \w+)*): (.*)$")
SPECIAL = re.compile(r"(`[^`]*`)|(?<!\w)\*[A-Z][^*`]*\*(?!\w)|[*<\[\]|]")


def escaped(line: str) -> str:
    """The line with signs of formulas shielded; code and *Emphasised words* stay."""

    def shield(match: re.Match[str]) -> str:
        found = match.group(0)
        return f"\\{found}" if len(found) == 1 and found != "<" else found.replace("<", "&lt;")

    return SPECIAL.sub(lambda m: m.group(0) if m.group(1) else shield(m), line)


def paragraph(lines: list[str]) -> list[str]:
    """One block without blank lines: a session, indented code, a list of fields, or text."""
    first = lines[0]
    if first.startswith(">>>"):
        return ["```pycon", *lines, "```"]
    if first.startswith("    "):
        return lines
    if not FIELD.match(first):
        return [escaped(line) for line in lines]
    return [field(line) for line in lines]


def field(line: str) -> str:
    found = FIELD.match(line)
    return f"- **{found[1]}**: {escaped(found[2])}" if found else "    " + escaped(line.strip())


def to_markdown(text: str) -> str:
    blocks = [block.splitlines() for block in re.split(r"\n\s*\n", text.strip("\n")) if block.strip()]
    return "\n\n".join("\n".join(paragraph(lines)) for lines in blocks)


class Docstrings(griffe.Extension):
    """Rewrite every docstring when griffe reads it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = to_markdown(obj.docstring.value)
