"""The pictures of README and landing page show what the pages they come from say."""

import re
from collections import Counter
from pathlib import Path

from docs.tools.pictures import PANELS, PICTURES, VERDICTS, verdict_counts

from benchmarks.suites.compression.means import columns_of, groups

DOCS = Path(__file__).parents[2] / "docs"


def test_verdicts_add_up_to_the_line_of_the_report():
    total = sum(verdict_counts().values(), Counter())
    page = (DOCS / "audit-results.md").read_text()
    head = re.search(r"^\| nature \|(.*)\|$", page, re.MULTILINE)
    line = re.search(r"^\| all \|(.*)\|$", page, re.MULTILINE)
    assert head is not None
    assert line is not None
    names = [cell.strip() for cell in head[1].split("|")]
    stated = dict(zip(names, map(int, line[1].split("|")), strict=True))
    failed = [name for name in total if name.endswith(("fails", "is false"))]
    assert sum(total[name] for name in failed) == stated.pop("violated")
    assert {name: total[name] for name in stated} == stated
    assert set(total) <= set(VERDICTS)


def test_compression_has_the_points_of_the_table():
    panels = {axes.get_title(): axes for axes in PICTURES["compression"]().axes}
    assert set(panels) == set(PANELS)
    for name, axes in panels.items():
        columns = columns_of(groups()[name])
        ours = axes.lines[1]
        expected = {c.many: 100 * c.sum("recall") / c.full for c in columns if c.sum("recall") is not None}
        assert dict(zip(ours.get_xdata(), ours.get_ydata(), strict=True)) == expected


def test_every_picture_is_there():
    assert [name for name in PICTURES if not (DOCS / "images" / f"{name}.svg").exists()] == []
