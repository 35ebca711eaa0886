"""Prices: the table is the measured one, and rates turn into prices in order."""

import json
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.stages.detector.prices import _PRICES, _READINGS, price

MEASURED = Path(__file__).parents[3] / "benchmarks/detector_calibration.json"


def test_the_table_is_the_largest_measured_over_all_correlations():
    rows = json.loads(MEASURED.read_text())
    for rate, prices in _PRICES.items():
        for count, given in zip(_READINGS, prices, strict=True):
            largest = max(row[f"{rate:g}"] for row in rows if row["readings"] == count)
            assert given == pytest.approx(largest, abs=0.1)


def test_rarer_alarms_cost_more():
    for count in (20, 77, 400):
        assert price(0.2, count) < price(0.1, count) < price(0.05, count) < price(0.001, count)
    assert price(0.05, 30) == _PRICES[0.05][0]


@pytest.mark.parametrize("rate", [0.0, 0.9, float("nan"), "5 %"])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(AttangentError, match="false_alarms"):
        price(rate, 100)
