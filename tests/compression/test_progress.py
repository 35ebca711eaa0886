"""Stages report how far they are and add up their seconds."""

import pytest

from attangent.compression.progress import Stages


def test_progress_is_reported_from_nothing_to_the_end():
    seen = []
    stages = Stages(lambda *one: seen.append(one))
    with stages.stage("reading", 5) as done:
        done(2)
        done(3)
    assert seen == [("reading", 0, 5), ("reading", 2, 5), ("reading", 5, 5)]


def test_seconds_of_a_stage_add_up_even_after_an_error():
    stages = Stages()
    with stages.stage("a", 1):
        pass
    first = stages.seconds["a"]
    with pytest.raises(RuntimeError), stages.stage("a", 1):
        raise RuntimeError
    assert stages.seconds["a"] > first
    assert list(stages.seconds) == ["a"]


def test_stages_of_something_else_say_so():
    stages = Stages()
    with stages.named("for peft"), stages.stage("fitting", 1):
        pass
    with stages.stage("fitting", 1):
        pass
    assert list(stages.seconds) == ["fitting for peft", "fitting"]
