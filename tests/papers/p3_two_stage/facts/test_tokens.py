"""The vocabulary of a corpus."""

import pytest

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.corpus import Example, FactCorpus
from attangent.papers.p3_two_stage.facts.tokens import Vocabulary
from attangent.papers.p3_two_stage.facts.typed_facts import TypedFacts
from tests.papers.p3_two_stage.facts.examples import CORPUS


def test_words_of_another_corpus_are_refused():
    vocabulary = Vocabulary.of(CORPUS)
    other = TypedFacts(seed=5).corpus()
    with pytest.raises(AttangentError, match="not in the vocabulary"):
        vocabulary.encode(other.training[:1])
    with pytest.raises(AttangentError, match="no examples"):
        vocabulary.encode([])


def test_answers_of_several_words_are_one_token():
    corpus = FactCorpus(
        (Example("who sang ?", "Ella Fitzgerald", "person"),), (), {"person": ("Ella Fitzgerald",)}, "x"
    )
    vocabulary = Vocabulary.of(corpus)
    assert vocabulary.words == ("<pad>", "?", "Ella Fitzgerald", "sang", "who")
    assert vocabulary.encode(corpus.training).answer.tolist() == [2]
