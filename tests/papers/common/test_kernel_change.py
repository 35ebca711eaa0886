import math

import pytest
import torch

from attangent.papers.common.kernel_change import (
    change_figure,
    entry_line,
    largest_over_radius,
    norm_line,
    random_move,
)

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
