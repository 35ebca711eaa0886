"""The usual way is left only for what is clearly better; the record of a run: what is kept, when to stop."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.tuning.stopping import LEAST_GAIN, PARTS, PATIENCE, Record, clearly_better, step_of_part


def recorded(folder, errors, steps=80):
    record = Record(folder)
    record.steps = steps
    for place, error in enumerate(errors):
        record.add(10 * place, [error] * 4)
    return record


@pytest.mark.parametrize(
    ("errors", "kept"),
    [
        ([0.9, 0.8, 0.5], 20),
        ([0.9, 0.5, 0.505], 20),  # the end, where nothing before it is clearly better
        ([0.9, 0.8, 0.5, 0.6], 20),
        ([0.4, 0.8, math.nan], 0),
    ],
)
def test_the_end_is_kept_unless_an_earlier_step_is_clearly_better(tmp_path, errors, kept):
    assert recorded(tmp_path, errors).kept == kept


@pytest.mark.parametrize(
    ("errors", "over"),
    [
        ([1, 0.9, 0.8], False),
        ([1, 0.9, 0.95, 0.95], False),
        ([1, 0.9, *[0.95] * PATIENCE], True),
        ([1, *[1.0] * PATIENCE], False),
        ([1, 0.9, math.inf], True),
        ([1 - part / 10 for part in range(PARTS + 1)], True),
    ],
)
def test_when_a_run_is_over(tmp_path, errors, over):
    record = recorded(tmp_path, errors)
    assert record.is_over(record.last) is over


def test_a_record_is_read_back_and_judged_by_what_came_before(tmp_path):
    recorded(tmp_path, [1.0, 0.9, 1.1, 1.1, 1.1])
    found = Record(tmp_path)
    assert (found.steps, found.kept, found.last, found.mean(20)) == (80, 10, 40, 1.1)
    assert found.is_over(40)
    assert not found.is_over(30)
    assert found.reached(4)
    assert not found.reached(5)


def test_a_step_that_is_repeated_changes_nothing(tmp_path):
    record = recorded(tmp_path, [1.0, 0.9, 0.7, 0.8])
    before = (tmp_path / "validation.json").read_text()
    record.add(30, [0.8] * 4)
    assert before == (tmp_path / "validation.json").read_text()


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"steps": 3}', '{"steps": 3, "errors": {"a": [1]}}', '{"steps": 3, "losses": {}}']
)
def test_a_file_that_is_not_a_record_is_refused(tmp_path, content):
    (tmp_path / "validation.json").write_text(content)
    with pytest.raises(AttangentError, match="not a run"):
        Record(tmp_path)


@pytest.mark.parametrize("steps", [1, 3, 8, 9, 50, 1000])
def test_parts_end_with_the_run(steps):
    places = [step_of_part(part, steps) for part in range(1, PARTS + 1)]
    assert places == sorted(places)
    assert places[0] >= 1
    assert places[-1] == steps


ERRORS = st.lists(st.floats(0, 1), min_size=2, max_size=20)


@given(ERRORS, ERRORS)
def test_of_two_ways_at_most_one_is_clearly_better(first, second):
    size = min(len(first), len(second))
    assert not (clearly_better(first[:size], second[:size]) and clearly_better(second[:size], first[:size]))


@given(ERRORS)
def test_nothing_is_better_than_itself(errors):
    assert not clearly_better(errors, errors)


@pytest.mark.parametrize(
    ("errors", "usual", "better"),
    [
        ([0.1] * 9, [0.1 + 2 * LEAST_GAIN] * 9, True),
        ([0.1] * 9, [0.1 + LEAST_GAIN / 2] * 9, False),  # by too little to matter
        ([0.0, 0.0, 0.5], [0.9, 0.0, 0.0], False),  # by chance: gains .9, 0, -.5
        ([0.0001] * 40, [0.001] * 40, False),  # both are right: a smaller loss alone is no reason
        ([math.inf] * 3, [0.9] * 3, False),
        ([0.9] * 3, [math.inf] * 3, True),
        ([0.0], [1.0], False),  # one row tells nothing
    ],
)
def test_what_is_clear(errors, usual, better):
    assert clearly_better(errors, usual) is better
