"""False alarms and finds on curves drawn as the benchmark draws them, on seeds of their own.

`python -m benchmarks.detector` measures the rates on 200 curves; here fewer are drawn.
"""

import pytest

from attangent.stages.detector.group import examine
from benchmarks.detector_curves import CASES

CURVES = {"flat": 10, "decay": 8, "stages": 5}
CHOSEN = [
    case
    for case in CASES
    if case.name
    in (
        "flat, independent noise 15 %",
        "flat, autocorrelated (.9) 15 %",
        "flat, random walk 15 %",
        "exponential, independent noise 1 %",
        "power law, independent noise 1 %",
        "1 stage, noise 5 %",
        "2 stages, noise 5 %",
        "3 stages, noise 5 %",
    )
]


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_rates(case):
    curves = [case.draw(seed) for seed in range(70_000, 70_000 + CURVES[case.kind])]
    found = [examine("loss", range(len(curve.losses)), curve.losses).stages for curve in curves]
    if case.kind != "stages":
        assert sum(map(bool, found)) <= 1
        return
    right = [len(stages) == len(curve.onsets) for stages, curve in zip(found, curves, strict=True)]
    near = [
        abs(stage.onset - onset) <= 10
        for stages, curve, same in zip(found, curves, right, strict=True)
        if same
        for stage, onset in zip(stages, curve.onsets, strict=True)
    ]
    assert sum(right) >= 4
    assert sum(near) >= 0.8 * len(near)
