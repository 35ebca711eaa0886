"""Intervals and marks: they widen with what a tangent cannot see."""

import pytest

from attangent.tuning.planning.certainty import interval, is_sure_of_loss, is_sure_of_score, usual_error


def test_an_interval_widens_with_the_gap_the_orders_and_the_usual_error():
    calm = interval(0.8, 0.0, 0.0, 300, 0.01)
    wild = interval(0.8, 0.0, 0.1, 300, 0.01)
    varied = interval(0.8, 0.01, 0.0, 300, 0.01)
    far = interval(0.8, 0.0, 0.0, 300, 0.05)
    assert wild[0] < calm[0] < 0.8 < calm[1] < wild[1]
    assert varied[0] < calm[0]
    assert far[0] == pytest.approx(0.8 - (0.05**2 + (1.645 / 600) ** 2) ** 0.5)
    assert interval(0.8, 0.0, 0.0, 15, 0.0)[0] < 0.8 - 1 / 30
    assert interval(0.999, 0.0, 0.3, 300, 0.01)[1] == 1.0
    assert interval(0.001, 0.0, 0.3, 300, 0.01)[0] == 0.0
    assert interval(0.001, 0.0, 0.3, 300, 0.01, values=True)[0] < 0


def test_the_usual_error_grows_with_the_departure_and_faster_where_rows_are_fitted():
    assert usual_error(0.0, False) == usual_error(0.0, True) == 0.01
    assert usual_error(0.25, False) == pytest.approx(0.01 + 0.03)
    assert usual_error(0.25, True) == pytest.approx(0.01 + 0.125)
    assert usual_error(7.0, False) == usual_error(1.0, False)


def test_figures_that_lie_apart_are_not_sure():
    assert is_sure_of_loss(0.1, 0.01)
    assert not is_sure_of_loss(0.1, 0.3)
    assert not is_sure_of_loss(0.4, 0.01)
    assert is_sure_of_score(0.8, 0.78)
    assert not is_sure_of_score(0.8, 0.75)
