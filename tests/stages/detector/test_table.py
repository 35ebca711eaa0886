"""Stages as a table and as text."""

import numpy as np
import pandas as pd

from attangent.stages import find_stages

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
