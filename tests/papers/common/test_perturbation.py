import math

import pytest
import torch

from attangent.audit import Verdict
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.papers.common.perturbation import (
    AT_THEOREM,
    beyond_bound,
    change_figure,
    entry_line,
    largest_over_radius,
    norm_line,
    random_move,
    thirteen_parts,
)

X, _ = unit_data(5, 3, 3, seed=0)
W = SoftmaxNetwork(3, 3, 64, 1.0, "independent", 0).W


def test_every_part_holds_where_b_bounds_the_products():
    B = max((X @ W).abs().max().item(), 1.0)
    finding = thirteen_parts(X, W, B, R=0.009)
    assert finding.verdict is Verdict.HOLDS
    assert len(finding.conclusions) == 13


def test_a_bound_below_the_products_is_found_out():
    assert thirteen_parts(X, W, 0.5 * (X @ W).abs().max().item(), R=0.009).verdict is Verdict.VIOLATED


def test_a_point_outside_the_ball_breaks_the_hypothesis():
    assert not thirteen_parts(2 * X, W, 1.0, R=0.009).hypotheses[0].met


def test_the_expected_number_beyond_the_bound_by_hand():
    line = beyond_bound(B=2.0, sigma=1.0, delta=0.05, log10_m=3.0)
    assert 10**line.measured == pytest.approx(1000 * math.erfc(2 / math.sqrt(2)))
    assert (line.kept, line.part) == (False, AT_THEOREM)
    assert beyond_bound(B=2.0, sigma=0.1, delta=0.05, log10_m=3.0).kept


RADII = [1e-5, 1e-4, 1e-3, 1e-2]
ONES = torch.ones(2, 2, dtype=torch.float64)
LINEAR = {R: 3 * R * ONES for R in RADII}
SMALLER = {R: -R * ONES for R in RADII}
JUMP = dict.fromkeys(RADII, ONES)


def test_every_neuron_moves_by_one():
    W = torch.zeros(3, 5)
    torch.testing.assert_close(random_move(W, 0).norm(dim=0), torch.ones(5, dtype=torch.float64))
    assert torch.equal(random_move(W, 0), random_move(W, 0))
    assert not torch.equal(random_move(W, 0), random_move(W, 1))


def test_the_worst_move_counts():
    assert largest_over_radius(LINEAR) == pytest.approx(6.0)
    size = entry_line({"a": SMALLER, "b": LINEAR}, log10_bound=0.4)
    assert (10**size.measured, size.kept) == (pytest.approx(3.0), False)
    line = norm_line({"a": SMALLER, "b": LINEAR}, log10_bound=math.log10(6.1))
    assert (10**line.measured, line.kept) == (pytest.approx(6.0), True)


def test_a_kernel_that_jumps_is_found_out():
    line = entry_line({"jump": JUMP}, log10_bound=4.0)
    assert (10**line.measured, line.kept) == (pytest.approx(1e5), False)


def test_the_figure_has_a_curve_for_each_move():
    figure = change_figure({"a": LINEAR, "b": JUMP}, "neuron")
    assert [series.label for series in figure.series] == ["a", "b"]
    assert list(figure.series[0].y) == pytest.approx([6 * R for R in RADII])
