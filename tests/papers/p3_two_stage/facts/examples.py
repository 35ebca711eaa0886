"""A small corpus that the tests of the folder share."""

from attangent.papers.p3_two_stage.facts.corpora import TypedFacts

CORPUS = TypedFacts(relations=3, answers=4, subjects=12, facts_per_subject=2).corpus()
