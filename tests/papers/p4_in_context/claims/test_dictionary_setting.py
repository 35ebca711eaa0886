"""The tests of `papers/p4/dictionary_setting.py`."""

import pytest
import torch

from attangent.audit import registry
from attangent.icl import RidgeLimit
from attangent.papers.p4_in_context.claims import bounds
from attangent.papers.p4_in_context.claims.dictionary_setting import (
    Reparametrised,
    alike_lines,
    curves_figure,
    draw_dictionary,
    fall,
    fall_lines,
)


def test_the_reparametrised_gradient_is_the_slope_of_its_gap():
    given = draw_dictionary(registry.get("P4/lemma-7").quick, 0)
    l = Reparametrised(given, RidgeLimit(given).A, 3.0)
    Q, alpha = bounds._points(registry.get("P4/lemma-7").quick, 0)[100]
    moved = alpha.clone()
    moved[0, 0] += 1e-6
    slope = (l.gap(Q, moved) - l.gap(Q, alpha)) / 1e-6
    assert slope == pytest.approx(l.gradient(Q, alpha)[1][0, 0].item(), rel=1e-3)


FALLING = torch.tensor([8.0, 4.0, 1.0])
LOSSES = {"gap": FALLING, "in-domain loss": 2 * FALLING, "out-of-domain loss": FALLING**2}


def test_a_fall_is_the_last_loss_over_the_first():
    assert fall(FALLING) == 0.125
    rising = {"gap": FALLING, "in-domain loss": FALLING.flip(0)}
    assert [(line.name, line.kept) for line in fall_lines(rising)] == [
        ("gap at the end / at the start", True),
        ("in-domain loss at the end / at the start", False),
    ]


def test_powers_of_each_other_are_wholly_alike():
    positive, follows, falls = alike_lines("in-domain loss", LOSSES, least_correlation=0.9, largest_fall=0.1)
    assert positive.kept
    assert positive.decides
    assert follows.name == "correlation of log out-of-domain with log in-domain"
    assert (follows.measured, follows.kept) == (pytest.approx(1.0), True)
    assert (falls.measured, falls.kept) == (0.125, False)
    opposite = {**LOSSES, "out-of-domain loss": FALLING.flip(0)}
    assert not alike_lines("gap", opposite, least_correlation=0.9, largest_fall=0.1)[1].kept


def test_every_curve_is_drawn():
    figure = curves_figure("Figure 2a", torch.arange(3), LOSSES)
    assert [series.label for series in figure.series] == list(LOSSES)
