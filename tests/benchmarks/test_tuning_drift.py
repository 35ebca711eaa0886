"""The measures of what training changes."""

import numpy as np
import pytest

from benchmarks.suites.tuning.drift import effective_rank, moved


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_a_change_along_some_directions_has_that_rank(rank):
    draw = np.random.default_rng(0)
    left, right = (np.linalg.qr(draw.normal(size=(n, rank)))[0] for n in (20, 7))
    assert effective_rank(3 * left @ right.T) == pytest.approx(rank)


def test_what_all_rows_of_a_class_share_is_of_classes():
    labels = np.array([0, 1] * 50)
    draw = np.random.default_rng(0)
    before = draw.normal(size=(100, 6))
    by_class = moved(before, before + np.array([[1.0], [-1.0]])[labels] * np.eye(6)[0], labels)
    alone = moved(before, before + draw.normal(size=(100, 6)), labels)
    assert by_class["drift_of_classes"] == pytest.approx(1)
    assert by_class["drift_rank"] == pytest.approx(1)
    assert by_class["drift"] == pytest.approx(10 / np.linalg.norm(before - before.mean(axis=0)))
    assert alone["drift_of_classes"] < 0.1
    assert alone["drift_rank"] > 4
