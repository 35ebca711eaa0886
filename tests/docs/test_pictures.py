"""The pictures of README and landing page show what the pages they come from say."""

import re
from collections import Counter
from pathlib import Path

from docs.tools.pictures import PICTURES, VERDICTS, verdict_counts

DOCS = Path(__file__).parents[2] / "docs"


def test_verdicts_add_up_to_the_line_of_the_report():
    total = sum(verdict_counts().values(), Counter())
    line = re.search(r"^\| all \|(.*)\|$", (DOCS / "audit-full.md").read_text(), re.MULTILINE)
    assert line is not None
    order = ("holds", "measured", "violated", "not reproduced", "open")
    assert [total[name] for name in order] == [int(cell) for cell in line[1].split("|")]
    assert set(total) <= set(VERDICTS)


def test_compression_is_drawn_from_the_rows_of_the_benchmark():
    axes = PICTURES["compression"]().axes[0]
    labels = [line.get_label() for line in axes.lines]
    assert "attangent" in labels
    ours = axes.lines[labels.index("attangent")]
    assert len(ours.get_xdata()) > 0


def test_every_picture_is_there():
    assert [name for name in PICTURES if not (DOCS / "images" / f"{name}.svg").exists()] == []
