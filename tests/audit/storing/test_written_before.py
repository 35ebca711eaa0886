"""A run that an earlier version wrote is read and shown as it was."""

from pathlib import Path

from attangent.audit import Verdict, load
from attangent.audit.report.markdown import render_markdown
from attangent.audit.report.page import render

FOLDER = Path(__file__).parents[2] / "fixtures" / "audit"


def test_findings_written_before_are_read():
    run = load(FOLDER)
    assert run.problems == {}
    kept, broken = run.results()
    assert (kept.claim, kept.verdict) == ("P2/definition-3.6", Verdict.HOLDS)
    assert (broken.claim, broken.verdict) == ("P3/proposition-3", Verdict.VIOLATED)
    assert broken.deciding.finding.deciding.measured == broken.deciding.finding.conclusions[0].measured
    assert [len(result.deciding.finding.figures) for result in (kept, broken)] == [1, 1]
    assert kept.deciding.finding.lacks == ""


def test_they_are_shown():
    run = load(FOLDER)
    html, page = render(run), render_markdown(run)
    for result in run.results():
        assert f'id="{result.claim}"' in html
        assert f"| {result.claim} | {result.origin.kind} | {result.verdict} |" in page
    assert html.count('class="plot"') == 2
