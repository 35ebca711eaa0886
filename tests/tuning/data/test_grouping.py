"""Rows kept apart that are unlike the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.tuning.data.grouping import unlike_part
from attangent.tuning.data.splitting import held_out


def test_whole_groups_are_kept_apart():
    draw = np.random.default_rng(0)
    centres = 10 * draw.normal(size=(10, 4))
    groups = np.repeat(np.arange(10), 8)
    features = centres[groups] + 0.1 * draw.normal(size=(80, 4))
    targets = (groups // 5).tolist()
    train, held = unlike_part(features, targets, 0)
    assert sorted(train + held) == list(range(80))
    assert len(held) == 16
    assert len(set(groups[held])) == 2
    assert not set(groups[held]) & set(groups[train])
    assert {targets[i] for i in held} == {0, 1}


@settings(deadline=None, max_examples=20)
@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 5))
def test_every_class_stays_in_training(targets, seed):
    for train, held in (
        held_out(targets, 0.2, seed, "x"),
        unlike_part(np.ones((len(targets), 2)), targets, seed),
    ):
        assert sorted(train + held) == list(range(len(targets)))
        assert {targets[i] for i in train} == set(targets)


@pytest.mark.parametrize("count", [1, 2, 12])
def test_few_rows_are_drawn_at_random(count):
    _, held = unlike_part(np.arange(count, dtype=float)[:, None], [0] * count, 0)
    assert len(held) == {1: 0, 2: 1, 12: 2}[count]
