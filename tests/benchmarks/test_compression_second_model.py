"""Compression with another model: text with questions behind it, rows of all methods, and the table."""

import json

from benchmarks.suites.compression.means import PAGE
from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.compression.second_model import METHODS, RESULTS, SELECTION, plain_text, rows_of, table
from tests.compression.cases import Letters, run_of, tiny_llama


def test_every_method_has_a_row_and_the_table_has_their_sums():
    whole = plain_text(PROMPTS["railway"]())
    assert whole.questions[0][0].startswith("\n\nQuestion: ")
    small = type(whole)("railway", whole.content[:120], whole.questions[:2], 4, True)
    rows = rows_of(run_of(tiny_llama(layers=1), Letters(), small.content), small, [8])
    assert [row["method"] for row in rows] == ["full prompt", *METHODS, SELECTION]
    assert len({row["bytes"] for row in rows[1:]}) == 1
    rows[1]["answers"], rows[0]["answers"] = 1, 2
    lines = table(rows).splitlines()
    assert lines[0] == "| answers | 8x (1) | ratio | 16x (1) | ratio |"
    assert lines[2] == "| full prompt | 2 of 2 | 0 | 2 of 2 | 0 |"
    assert lines[3] == f"| recall | 1 | {rows[1]['ratio']:.3f} | - | - |"


def test_the_page_has_the_table_of_the_results():
    assert table(json.loads(RESULTS.read_text())) in PAGE.read_text()
