"""Forms of English verbs."""

import pytest

from attangent.compression.rules.verbs import base_form, infinitive, past_tense, third_person


@pytest.mark.parametrize(
    ("participle", "base"),
    [
        ("reviewed", "review"),
        ("supplied", "supply"),
        ("planned", "plan"),
        ("approved", "approve"),
        ("passed", "pass"),
        ("written", "write"),
        ("left", "leave"),
        ("sprung", ""),
    ],
)
def test_a_participle_has_a_base_form(participle, base):
    assert base_form(participle) == base


def test_the_past_tense_may_differ_from_the_participle():
    assert [past_tense(verb) for verb in ("reviewed", "built", "given")] == ["reviewed", "built", "gave"]


@pytest.mark.parametrize("base", ["weigh", "carry", "pass", "reach", "play", "fix"])
def test_the_third_person_has_its_base_form_as_infinitive(base):
    assert infinitive(third_person(base)) == base


@pytest.mark.parametrize("word", ["is", "was", "glass", "weigh"])
def test_other_words_have_no_infinitive(word):
    assert infinitive(word) == ""
