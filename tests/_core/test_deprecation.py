import pytest

from attangent import AttangentError
from attangent._core.deprecation import moved_names, renamed_arguments


@renamed_arguments("0.2", told="progress")
def walk(steps, progress=None):
    return steps, progress


def test_an_old_argument_works_and_warns_at_the_line_of_the_caller():
    with pytest.warns(
        FutureWarning, match=r"walk\(told=\) is deprecated since attangent 0\.2.*use progress="
    ) as seen:
        assert walk(2, told=3) == (2, 3)
    assert seen[0].filename == __file__
    assert walk(2, progress=3) == (2, 3)


def test_both_names_at_once_are_refused():
    with pytest.raises(AttangentError, match="both told and progress"):
        walk(1, told=1, progress=2)


def test_a_moved_name_is_found_and_warned_of():
    look_up = moved_names("attangent.old", "0.2", {"sample_of": "attangent.data:sample"})
    with pytest.warns(FutureWarning, match=r"use attangent\.data\.sample"):
        assert look_up("sample_of")("weather").is_file()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        look_up("nonsense")
