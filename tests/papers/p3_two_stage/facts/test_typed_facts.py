"""Made-up corpora: sizes, types that do not overlap, paraphrases that are held out."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.papers.p3_two_stage.facts.typed_facts import DIRECT, TWO_HOPS, TypedFacts


@settings(max_examples=20)
@given(
    relations=st.integers(2, 6),
    answers=st.integers(1, 6),
    subjects=st.integers(1, 20),
    facts=st.integers(1, 2),
    wordings=st.integers(2, 5),
    links=st.integers(0, 3),
)
def test_sizes_types_and_paraphrases(relations, answers, subjects, facts, wordings, links):
    made = TypedFacts(relations, answers, subjects, facts, wordings, links)
    corpus = made.corpus()
    assert len(corpus.held_out) == subjects * facts
    assert len(corpus.training) == subjects * facts * (wordings - 1)
    assert len(corpus.answers) == relations * answers
    assert not {e.prompt for e in corpus.training} & {e.prompt for e in corpus.held_out}
    assert all(example.answer in corpus.types[example.type] for example in corpus.training)
    assert len({e.prompt for e in corpus.training}) == len(corpus.training)


def parsed(example, wordings):
    """Number of the wording and its words by name."""
    for number, wording in enumerate(wordings):
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>\\w+)", re.escape(wording))
        if found := re.fullmatch(pattern, example.prompt):
            return number, found.groupdict()
    raise AssertionError(example)


def test_every_wording_is_trained_on_and_held_out():
    corpus = TypedFacts(wordings=4).corpus()
    for examples in (corpus.training, corpus.held_out):
        found = [parsed(example, DIRECT) for example in examples]
        assert {number for number, _ in found} == {0, 1, 2, 3}
        assert all(words["relation"] == e.type for (_, words), e in zip(found, examples, strict=True))


def test_the_seed_decides():
    assert TypedFacts(seed=1).corpus() == TypedFacts(seed=1).corpus()
    assert TypedFacts(seed=1).corpus() != TypedFacts(seed=2).corpus()


def test_links_matter_to_the_answer():
    corpus = TypedFacts(relations=2, subjects=50, facts_per_subject=6, links=3).corpus()
    answers = {}
    for example in corpus.training:
        _, words = parsed(example, TWO_HOPS)
        answers.setdefault((words["subject"], words["relation"]), {})[words["link"]] = example.answer
    assert all(len(by_link) == 3 for by_link in answers.values())
    differ = [len(set(by_link.values())) > 1 for by_link in answers.values()]
    assert sum(differ) / len(differ) > 0.9


WRONG = [
    {"relations": 0},
    {"facts_per_subject": 11},
    {"wordings": 1},
    {"wordings": 9},
    {"links": -1},
]


@pytest.mark.parametrize("sizes", WRONG, ids=str)
def test_sizes_that_cannot_be_are_refused(sizes):
    with pytest.raises(AttangentError):
        TypedFacts(**sizes)
