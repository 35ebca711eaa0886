"""The page of results is what its tool writes from the stored results."""

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "tools" / "results.py"))


def test_the_page_is_up_to_date():
    assert TOOL["PAGE"].read_text() == TOOL["page"](), "run python docs/tools/results.py"


def test_the_serving_table_shows_every_stored_row():
    rows = TOOL["rows_of"]("engines.json")["rows"]
    assert len(TOOL["serving"]().splitlines()) == len(rows) + 2
