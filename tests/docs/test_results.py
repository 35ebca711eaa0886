"""The page of results is what its tool writes from the stored results."""

import json
import re
import runpy
import statistics
from pathlib import Path

from benchmarks.suites.tuning import fresh

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "tools" / "results.py"))


def test_the_page_is_up_to_date():
    assert TOOL["PAGE"].read_text() == TOOL["page"](), "run python -m docs.tools.results"


def test_the_serving_table_shows_every_stored_row():
    rows = TOOL["rows_of"]("engines.json")["rows"]
    assert len(TOOL["serving"]().splitlines()) == len(rows) + 2


def test_the_table_of_the_tuning_page_is_that_of_the_stored_runs():
    """Mean accuracy and processor time over the subsets that were run, and the differences over tasks."""
    lines = (TOOL["RESULTS"] / "tuning_fresh.jsonl").read_text().splitlines()
    runs = [json.loads(line) for line in lines]
    page = (Path(__file__).parents[2] / "docs/tuning.md").read_text()
    shown = [line.strip("| ").split(" | ")[1:] for line in re.findall(r"^\| .* rows \| .*$", page, re.M)]
    assert len(shown) == len(fresh.SIZES)
    for task, cells in zip(fresh.SIZES, shown, strict=True):
        for method, cell in zip(fresh.METHODS, cells, strict=False):
            chosen = [run for run in runs if (run["task"], run["method"]) == (task, method)]
            assert cell == _cell(chosen), (task, method)
    for method in ("probe", "peft", "setfit"):
        gap = re.search(rf"tune - {method}: \+?(\S+ ± \S+) points", fresh.table(runs))
        assert gap is not None
        assert gap[1] in page


def _cell(runs):
    if not runs:
        return "-"
    accuracy, seconds = (
        statistics.fmean(run[key] for run in runs) for key in ("accuracy", "processor_seconds")
    )
    return f"{accuracy:.3f} ({seconds:.0f} s)".lstrip("0")
