"""Corpora of facts: what they count, what they refuse."""

import pytest

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.corpus import Example, FactCorpus


def test_the_most_frequent_answer():
    examples = tuple(Example(f"p{i}", answer, "t") for i, answer in enumerate("aaab"))
    assert FactCorpus(examples, (), {"t": ("a", "b")}, "test").most_frequent == 0.75


def test_corpora_are_checked():
    with pytest.raises(AttangentError, match="no examples"):
        FactCorpus((), (), {}, "empty")
    with pytest.raises(AttangentError, match="not among those of type"):
        FactCorpus((Example("p", "c", "t"),), (), {"t": ("a",)}, "test")
