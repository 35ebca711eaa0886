import pytest

from attangent import AttangentError
from attangent.audit import Conclusion, Finding, Hypothesis
from attangent.audit.report.markdown import render_markdown, write_markdown
from attangent.audit.results import Run
from attangent.audit.storing.record import Origin, Record

KEPT = Conclusion("kept | <b>", "<=", 1.0, 0.5)
BROKEN = Conclusion("|F|^2 at the end", "<=", 1.0, 1.5)
OURS = Conclusion("corrected", "<=", 3.0, -4.0, log10=True, claimed=False)


def make_run(tmp_path, *findings):
    records = tuple(
        Record(Origin(f"P2/lemma-{i}", "Title", "Section 1", "s", "quick", {}, 0, "c"), finding, 0.1, {})
        for i, finding in enumerate(findings, 1)
    )
    return Run(tmp_path, "quick", records, (), {})


def test_table_totals_and_violations(tmp_path):
    run = make_run(
        tmp_path,
        Finding((KEPT,)),
        Finding((KEPT, BROKEN, OURS), (Hypothesis("h", ">=", 2.0, 1.0),), remark="Read *this*."),
    )
    page = render_markdown(run)
    assert "- **1 holds**" in page
    assert "- **1 not reproduced**" in page
    assert "| P2/lemma-1 | theorem | holds | kept \\| \\<b\\> | 0.5 | \\<= 1 |" in page
    assert "## P2/lemma-2: Title" in page
    assert "Not reproduced outside its hypotheses." in page
    assert "|F|^2 at the end: 1.5, should be <= 1: **not kept**" in page
    assert "corrected (ours): 10^−4, should be <= 10^3: kept" in page
    assert "Read \\*this\\*." in page


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(AttangentError, match=r"cannot write .*name another place"):
        write_markdown(make_run(tmp_path, Finding((KEPT,))), tmp_path / "none" / "page.md")
