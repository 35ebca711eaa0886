"""Compression with another model: text with questions behind it, rows of all methods."""

import re

from benchmarks.suites.compression.prompts import PROMPTS
from benchmarks.suites.compression.second_model import METHODS, SELECTION, document, plain_text, rows_of
from tests.compression.cases import Letters, run_of, tiny_llama


def test_every_method_has_a_row_of_equal_bytes():
    whole = plain_text(PROMPTS["railway"]())
    assert whole.questions[0][0].startswith("\n\nQuestion: ")
    small = type(whole)("railway", whole.content[:120], whole.questions[:2], 4, True)
    rows = rows_of(run_of(tiny_llama(layers=1), Letters(), small.content), small, [8])
    assert [row["method"] for row in rows] == ["full prompt", *METHODS, SELECTION]
    assert len({row["bytes"] for row in rows[1:]}) == 1


def test_a_document_is_text_with_questions_as_lines():
    prompt = document("leave")
    assert prompt.content.startswith("# Leave policy")
    question, pattern = prompt.questions[1]
    assert question == "\n\nQuestion: Who answers questions about the policy?\nAnswer:"
    assert re.search(pattern, "It is Ingrid Solheim.")
    assert not re.search(pattern, "It is Ingrids.")
