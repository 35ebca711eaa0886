"""Requests: a search or a fixed size, and values out of range."""

import pytest

from attangent import AttangentError
from attangent.compression.request import CompressionRequest
from attangent.compression.size_search import compress_by
from tests.compression.cases import Letters, run_of, tiny_llama

TEXT = "some text that is long enough. " * 4


def test_without_a_goal_the_size_is_taken_without_a_search():
    job = run_of(tiny_llama(layers=1), Letters(), TEXT, keep=0, size=10)
    result = compress_by(job, job.request)
    assert result.prompt.size == 10
    assert result.attempts == []
    assert result.as_json() == {}
    assert CompressionRequest(TEXT, keep=0).fixed_size == 64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3}, "always kept"),
        ({"size": 0}, "size is 0"),
        ({"method": "magic"}, "method is 'magic', expected one of"),
        ({"keep": -1}, "keep is -1"),
        ({"keep": 1.5}, "keep is 1.5"),
        ({"seconds": -1}, "seconds is -1"),
        ({"seconds": 0}, "seconds is 0"),
        ({"distill": -1}, "distill is -1"),
    ],
)
def test_values_out_of_range_raise_an_error(changes, message):
    with pytest.raises(AttangentError, match=message):
        CompressionRequest(TEXT, **changes)


def test_an_unknown_export_raises_an_error():
    with pytest.raises((AttangentError, TypeError), match="export"):  # TypeError if types are checked
        CompressionRequest(TEXT, export="gguf")  # type: ignore[arg-type]
