"""Stages as a table and as text."""

import numpy as np
import pandas as pd
import pytest

from attangent import AttangentError
from attangent.stages import StageDetector, find_stages
from attangent.stages.findings import GroupOrder
from attangent.stages.group import Group, Stage

STEPS = np.arange(120)


def frame(**losses):
    return pd.concat(
        [pd.DataFrame({"group": name, "step": STEPS, "loss": loss}) for name, loss in losses.items()]
    )


def test_one_row_per_stage_and_one_for_a_group_without():
    fall = 1 + 1 / (1 + np.exp((STEPS - 60) / 4))
    found = find_stages(frame(a=fall, b=np.full(120, 2.0), c=1 + np.exp(-STEPS / 9)))
    table = found.table
    assert table[["group", "stage"]].values.tolist() == [["a", 1], ["b", 0], ["c", 0]]
    assert table["onset_low"][0] <= table["onset"][0] <= table["onset_high"][0]
    assert table["onset"].isna().tolist() == [False, True, True]
    text = found.summary()
    assert "a: falls from" in text
    assert "b: on its plateau of 2; no stage" in text
    assert "c: a smooth decay from the start" in text
    assert "order: c < a (100%)" in text


def test_few_readings_are_named():
    found = find_stages(frame(a=np.ones(120)).iloc[:5])
    assert found.summary() == "a: 5 readings are too few, at least 20 are needed"


def group(name, onset, error):
    stage = Stage(name, onset, (onset - 1.96 * error, onset + 1.96 * error), None, None, 1.0, 0.0, 1.0)
    return Group(name, (stage,), 50, level=0.0, steps=np.arange(50.0))


def test_certainty_is_that_of_two_normal_onsets():
    order = GroupOrder.of([group("b", 30.0, 3.0), group("a", 25.0, 4.0), group("c", 90.0, 1.0)])
    assert order.names == ("a", "b", "c")
    assert order.certainty == pytest.approx((0.8413, 1.0), abs=1e-3)
    assert str(order) == "a < b (84%) < c (100%)"


def test_groups_of_the_start_up_come_first_and_are_not_told_apart():
    falling = [Group(name, (), 50, level=0.0, startup=1.0, steps=np.arange(50.0)) for name in "xy"]
    still = Group("z", (), 50, level=1.0, steps=np.arange(50.0))
    order = GroupOrder.of([group("a", 25.0, 4.0), *falling, still])
    assert order.names == ("x", "y", "a")
    assert order.certainty == pytest.approx((0.5, 1.0))
    assert str(GroupOrder.of([still])) == "no group falls"


def test_pictures(tmp_path):
    detector = StageDetector(["a"])
    with pytest.raises(AttangentError, match="no readings yet"):
        detector.plot(tmp_path / "a.png")
    for step in range(30):
        detector.update(step, {"a": max(0.0, min(2.0, 3 - step / 5))})
    detector.plot(tmp_path / "a.svg")
    assert "<svg" in (tmp_path / "a.svg").read_text()
