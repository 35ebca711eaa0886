"""Compression with another model: text with questions behind it, rows of all methods."""

from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.compression.second_model import METHODS, SELECTION, plain_text, rows_of
from tests.compression.cases import Letters, run_of, tiny_llama


def test_every_method_has_a_row_of_equal_bytes():
    whole = plain_text(PROMPTS["railway"]())
    assert whole.questions[0][0].startswith("\n\nQuestion: ")
    small = type(whole)("railway", whole.content[:120], whole.questions[:2], 4, True)
    rows = rows_of(run_of(tiny_llama(layers=1), Letters(), small.content), small, times=[8])
    assert [row["method"] for row in rows] == ["full prompt", *METHODS, SELECTION]
    assert len({row["bytes"] for row in rows[1:]}) == 1
