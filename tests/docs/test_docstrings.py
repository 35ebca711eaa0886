"""Docstrings become Markdown without losing a sign."""

import pytest

pytest.importorskip("griffe", reason="pip install 'attangent[docs]'")

from docs.tools.docstrings import to_markdown


def test_sessions_become_code():
    text = "What it is.\n\n>>> 1 + 1\n2\n"
    assert to_markdown(text) == "What it is.\n\n```pycon\n>>> 1 + 1\n2\n```"


def test_fields_become_a_list():
    text = "keep: the part\n    to keep.\nsize, rank: numbers."
    assert to_markdown(text) == "- **keep**: the part\n    to keep.\n- **size, rank**: numbers."


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("E|F - F*|^2 / E|F*|^2", r"E\|F - F\*\|^2 / E\|F\*\|^2"),
        ("sum_(i<L) y_i", "sum_(i&lt;L) y_i"),
        ("`a * b < c` and a * b", r"`a * b < c` and a \* b"),
        ("*Lower bound.* relu is convex", "*Lower bound.* relu is convex"),
        ("q [K; k]", r"q \[K; k\]"),
    ],
)
def test_formulas_are_shown_as_they_are(line, shown):
    assert to_markdown(line) == shown


def test_indented_code_stays():
    assert to_markdown("So:\n\n    a * b\n") == "So:\n\n    a * b"
