"""The English of the package: phrases that readers stumble over, as a budget that may only fall."""

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUDGET = {"src": 0.2, "hand-written": 0.5}
"""Most phrases per thousand words."""
GENERATED = {"audit-full.md", "audit-results.md", "benchmarks.md", "competitions.md"}

STUMBLES = re.compile(
    "|".join(
        (
            r"\b[Ww]here (?:it|they|there|this|no|none|one|few|fewer|both|all|nothing|neither|what)\b",
            r"\b(?:behind|beside)\b",
            r"\bso (?:many|much|far)\b",
            r"\b(?:tokens|numbers|lines|values|rows|seconds) a (?:head|seed|row|line|layer|step)\b",
            r"\b(?:comes|came) to\b",
            r"\b(?:goes|went) on\b",
            r"\bas (?:it|they) (?:is|are|stand)\b",
            r"\bof (?:ours|theirs|peft's|torch's)\b",
            r"\b(?:in|on) the mean\b",
            r"\b(?:kept|stand) apart\b",
            r"\b(?:foretold|anew|likeliest|learnt|whereof|thereof)\b",
            r"\b(?:is|are) (?:refused|told|looked at|looked for)\b",
        )
    )
)


def python_text(source: str) -> Iterator[str]:
    """Yield the comments and strings of a file, line by line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield from token.string.splitlines()


def markdown_text(source: str) -> list[str]:
    """Return the lines of a page without its code."""
    return re.sub(r"^```.*?^```$", "", source, flags=re.MULTILINE | re.DOTALL).splitlines()


def rate(lines: list[str]) -> float:
    words = sum(len(line.split()) for line in lines)
    return 1000 * sum(STUMBLES.search(line) is not None for line in lines) / words


def test_the_package():
    lines = [line for path in sorted((ROOT / "src").rglob("*.py")) for line in python_text(path.read_text())]
    assert rate(lines) <= BUDGET["src"]


def test_the_guides():
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.name not in GENERATED]
    pages += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    lines = [line for page in pages for line in markdown_text(page.read_text())]
    assert rate(lines) <= BUDGET["hand-written"]


def test_phrases_are_found():
    assert rate(["Where it is missing, so many rows are refused."]) > 0
    assert rate(["If it is missing, return three rows."]) == 0
