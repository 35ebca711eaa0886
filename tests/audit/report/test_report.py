import io

import pandas as pd

from attangent.audit.report import render_csv, write_page
from tests.audit.examples import bounded, make_record, make_run, showcase


def test_every_line_of_every_seed_is_a_row(tmp_path):
    run = showcase()
    path = write_page(run, tmp_path / "all.csv")
    found = pd.read_csv(path)
    assert len(found) == len(run.frame())
    assert set(found["verdict"]) == {"holds", "measured", "violated", "not reproduced", "open"}
    assert {"claim", "kind", "seed", "bound", "measured", "decides", "slack"} <= set(found.columns)


def test_text_that_a_spreadsheet_would_run_is_quoted():
    run = make_run(make_record("P2/lemma-1", bounded(0.5), place="=HYPERLINK(1)"))
    row = pd.read_csv(io.StringIO(render_csv(run))).iloc[0]
    assert row["place"] == "'=HYPERLINK(1)"
    assert row["measured"] == 0.5


def test_a_run_without_findings():
    assert "claim" in render_csv(make_run()) or render_csv(make_run()).strip() == ""
