"""Numbers to predict: read, refused, and put into units."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.tuning.data.columns import Columns
from attangent.tuning.data.values import ValueUnits, read_values

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20).filter(lambda x: max(x) - min(x) > 1e-3)


def file(tmp_path, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_numbers_and_their_texts(tmp_path):
    rows = [{"title": "a", "body": "b", "stars": 4}, {"title": "c", "body": "d", "stars": "-1"}]
    found = read_values(file(tmp_path, rows), Columns(("title", "body"), "stars"))
    assert found.values == [4.0, -1.0]
    assert found.examples[1].features == ("c", "d")
    assert found.take([1]).values == [-1.0]


def test_minus_one_is_a_number_here(tmp_path):
    assert read_values(file(tmp_path, [{"text": "a", "label": -1}])).values == [-1.0]


@pytest.mark.parametrize("label", ["many", "", None, "nan", "inf", [1]])
def test_what_is_no_number_is_refused_with_its_row(tmp_path, label):
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": label}]
    with pytest.raises(AttangentError, match=r"row 2: the column 'label' holds .*expected a number"):
        read_values(file(tmp_path, rows))


def test_values_that_are_all_the_same_are_refused():
    with pytest.raises(AttangentError, match="every value is 2"):
        ValueUnits.of([2.0, 2.0])


@given(NUMBERS)
def test_units_have_mean_0_and_deviation_1_and_go_back(values):
    units = ValueUnits.of(values)
    inside = [units.inside(value) for value in values]
    assert sum(inside) / len(inside) == pytest.approx(0, abs=1e-6)
    assert sum(x * x for x in inside) / len(inside) == pytest.approx(1, rel=1e-6)
    assert [units.outside(x) for x in inside] == pytest.approx(values, rel=1e-6, abs=1e-6)
