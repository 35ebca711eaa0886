"""No public name and no option vanishes without notice."""

from tests.public import LIST, public_names


def test_what_the_last_release_had_is_still_there():
    """A name is first deprecated for a version (`attangent._core.deprecation`), then taken from the list."""
    listed = LIST.read_text().split("\n")[:-1]
    assert len(listed) > 250
    assert set(listed) - set(public_names()) == set()


def test_the_names_are_found():
    names = public_names()
    assert {"attangent.attach", "attangent.icl.Dictionary", "attangent forecast --horizon"} <= set(names)
    assert {"attangent data list --check", "attangent audit --first-seed"} <= set(names)
    assert "attangent.papers.p3_two_stage.TwoStageData" in names
