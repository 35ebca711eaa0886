import math
from types import SimpleNamespace

import mpmath
import pytest
import torch

from attangent.audit import Settings, Verdict
from attangent.papers.common.descent import (
    SplitStep,
    gradient_line,
    second_order_factor,
    terms_add_up,
    walk,
)


@pytest.mark.parametrize("z", [-3.0, -0.051, -0.049, -1e-9, 0.0, 1e-6, 0.049, 0.051, 2.0])
def test_the_factor_of_the_second_order_to_full_precision(z):
    with mpmath.workdps(50):
        exact = float((mpmath.expm1(z) - z) / mpmath.mpf(z) ** 2) if z else 0.5
    found = second_order_factor(torch.tensor([z], dtype=torch.float64)).item()
    assert found == pytest.approx(exact, rel=1e-13)


@pytest.mark.parametrize(("factor", "steps"), [(0.5, 5), (0.9, 50), (math.inf, 1)])
def test_a_walk_ends_where_the_error_is_too_small_or_infinite(factor, steps):
    def take_step(p, before, rate):
        return SimpleNamespace(before=before, after=before * factor), before * factor

    p = SimpleNamespace(network=1.0, rate=lambda share: share)
    found = walk(p, Settings(steps=50, smallest=0.04, rate=0.5), take_step)
    assert len(found) == min(steps, 31 if factor == 0.9 else steps)


def step(first: float, second: float, theta: tuple[float, float] = (0.49, 0.51)) -> SplitStep:
    return SplitStep(before=2.0, after=1.0, terms={"C0": first, "C1": second}, theta=theta, move=0.001)


def test_terms_that_add_up_and_terms_that_do_not():
    finding = terms_add_up([step(-0.75, -0.25), step(-0.5, -0.5)])
    assert finding.verdict is Verdict.HOLDS
    assert finding.numbers["C0 / |F - Y|^2 at the first step"] == -0.375
    assert step(-0.75, 0.25).gap == 0.25
    assert terms_add_up([step(-0.75, -0.25), step(-0.75, 0.25)]).verdict is Verdict.VIOLATED


def test_a_factor_far_from_a_half_is_shown():
    lines = terms_add_up([step(-0.5, -0.5, theta=(0.4, 0.6))]).conclusions
    assert [line.kept for line in lines] == [True, False, False]


def test_the_constant_of_a_gradient_is_compared_with_its_bound():
    line = gradient_line("D.1", 1.0, 2.0)
    assert (line.kept, line.part) == (False, "D.1")
    assert gradient_line("D.1", 2.0, 1.0).kept
