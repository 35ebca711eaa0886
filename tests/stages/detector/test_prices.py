"""Prices: the table is the measured one, and rates turn into prices in order."""

import json
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.stages.detector.prices import _FIRST, _LATER, _READINGS, Price, price
from benchmarks.suites.stages.calibration import prices

MEASURED = Path(__file__).parents[3] / "benchmarks/results/detector_calibration.json"


def test_the_tables_are_the_largest_measured_over_all_noises():
    measured = prices(json.loads(MEASURED.read_text()))
    for place, count in enumerate(_READINGS):
        for rate in _FIRST:
            given = (_FIRST[rate][place], _LATER[rate][place])
            assert given == pytest.approx(measured[count][f"{rate:g}"], abs=0.1)


def test_rarer_alarms_cost_more():
    for count in (20, 77, 400):
        firsts = [price(rate, count).first for rate in (0.2, 0.1, 0.05, 0.001)]
        assert firsts == sorted(firsts)
    assert price(0.05, 30) == Price(_FIRST[0.05][0], _LATER[0.05][0])


def test_more_changes_cost_more():
    assert [Price(20.0, 10.0).of(count) for count in range(4)] == [0.0, 20.0, 30.0, 40.0]


@pytest.mark.parametrize("rate", [0.0, 0.9, float("nan"), "5 %"])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(AttangentError, match="false_alarms"):
        price(rate, 100)
