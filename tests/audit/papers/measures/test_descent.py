import math
from types import SimpleNamespace

import mpmath
import pytest
import torch

from attangent.audit import Settings
from attangent.audit.papers.measures.descent import second_order_factor, walk


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
