import math

import pytest

from attangent.audit import Verdict
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.papers.common.thirteen_parts import AT_THEOREM, beyond_bound, thirteen_parts

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
