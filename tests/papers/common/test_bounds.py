import math

import pytest
import torch

from attangent.papers.common.bounds import (
    bound_figure,
    falling,
    first_above,
    never_above,
    stays_below,
    worst_ratio,
)

BOUNDS = torch.tensor([1.0, 2.0, 0.0])


def test_the_first_step_above_its_bound():
    assert first_above(torch.tensor([0.5, 2.5, 1.0]), BOUNDS) == 1
    assert first_above(torch.tensor([1.0, 2.0, 0.0]), BOUNDS) is None
    assert first_above(torch.tensor([0.5, 1.0, 1.1]), 1.0) == 2


def test_the_worst_ratio_to_a_bound():
    assert worst_ratio(torch.tensor([0.5, 1.5, 0.0]), BOUNDS) == 0.75
    assert worst_ratio(torch.tensor([0.5, 1.5, 1e-9]), BOUNDS) == math.inf
    assert worst_ratio(torch.tensor([math.nan, 1.0, 0.0]), BOUNDS) == math.inf


def test_a_loss_that_falls_by_a_share_a_step():
    loss = torch.tensor([8.0, 1.0, 1.0, 1.0], dtype=torch.float64)
    assert falling(loss, 0.5).tolist() == pytest.approx([8.0, 4.0, 2.0, 1.0])


def test_the_line_of_one_bound_names_the_first_step_above_it():
    broken = never_above("C", 1.0, torch.tensor([0.5, 2.0, 3.0]), part="1")
    assert (broken.kept, broken.measured, broken.first_violation, broken.part) == (False, 3.0, 1, "1")
    kept = never_above("C", 3.0, torch.tensor([0.5, 2.0, 3.0]))
    assert (kept.kept, kept.first_violation) == (True, None)


def test_the_line_of_a_bound_for_each_step_forgives_round_off_alone():
    bounds = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    assert stays_below("L", bounds * (1 + 1e-12), bounds).kept
    assert not stays_below("L", bounds, bounds, claimed=False).decides
    broken = stays_below("L", torch.tensor([1.0, 2.0, 4.1], dtype=torch.float64), bounds)
    assert (broken.kept, broken.first_violation) == (False, 2)
    assert broken.measured == pytest.approx(1.025)


def test_a_run_is_drawn_beside_its_bounds():
    figure = bound_figure(
        "title", "loss", torch.tensor([1.0, 0.5]), torch.tensor([2.0, 1.0]), ("run", "bound")
    )
    assert [(series.label, series.kind) for series in figure.series] == [("run", "line"), ("bound", "bound")]
    assert [list(series.y) for series in figure.series] == [[1.0, 0.5], [2.0, 1.0]]
