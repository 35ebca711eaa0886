"""The bars: false alarms and finds, as recorded on 200 curves, and on fewer drawn here on other seeds.

`python -m benchmarks.suites.stages.detector` measures the rates and writes the record.
"""

import json

import pytest

from attangent.stages.group import examine
from benchmarks.suites.stages.curves import CASES
from benchmarks.suites.stages.detector import PLACE

CURVES = {"flat": 8, "decay": 6, "stages": 6}  # the recorded rates are of 200 each
FALSE_ONSETS = {"flat": 0.07, "decay": 0.10}
FOUND, NEAR = 0.90, 0.80
NAMED = ("1 stage, noise 5 %", "2 stages, noise 5 %", "3 stages, noise 5 %")
"""The cases with stages that have a bar; flat curves and decays all have."""
DRAWN = (
    "flat, independent noise 15 %",
    "flat, autocorrelated (.9) 15 %",
    "flat, random walk 15 %",
    "flat, random walk 15 % + independent 5 %",
    "exponential, independent noise 1 %",
    "power law, independent noise 1 %",
    *NAMED,
)
BARRED = [case for case in CASES if case.kind != "stages" or case.name in NAMED]


@pytest.fixture(scope="module")
def recorded():
    return {row["case"]: row for row in json.loads(PLACE.read_text()) if row["method"] == "find_stages"}


@pytest.mark.parametrize("case", BARRED, ids=lambda case: case.name)
def test_the_recorded_rates_keep_the_bars(case, recorded):
    row = recorded[case.name]
    assert row["curves"] >= 200
    if case.kind != "stages":
        assert row["false"] <= FALSE_ONSETS[case.kind]
    else:
        assert row["right"] >= FOUND
        assert row["near"] >= NEAR


@pytest.mark.parametrize("case", [case for case in CASES if case.name in DRAWN], ids=lambda case: case.name)
def test_curves_drawn_here_keep_the_bars(case):
    curves = [case.draw(seed) for seed in range(70_000, 70_000 + CURVES[case.kind])]
    found = [examine("loss", range(len(curve.losses)), curve.losses).stages for curve in curves]
    if case.kind != "stages":
        assert sum(map(bool, found)) <= round(FALSE_ONSETS[case.kind] * len(curves))
        return
    right = [len(stages) == len(curve.onsets) for stages, curve in zip(found, curves, strict=True)]
    near = [
        abs(stage.onset - onset) <= 10
        for stages, curve, same in zip(found, curves, right, strict=True)
        if same
        for stage, onset in zip(stages, curve.onsets, strict=True)
    ]
    assert sum(right) >= FOUND * len(right)
    assert sum(near) >= NEAR * len(near)
