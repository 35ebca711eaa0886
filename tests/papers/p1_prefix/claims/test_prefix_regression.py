import math

import pytest
import torch

from attangent.audit import registry
from attangent.kernels import vectorise
from attangent.papers.p1_prefix.claims.prefix_regression import SLOW, PrefixRegression, limit_ratio
from attangent.papers.p1_prefix.network import prefix_limit


@pytest.mark.parametrize("rho", [0.4, 0.1])
def test_the_slow_direction_is_an_eigenvector_of_both_kernels(rho):
    settings = registry.get("P1/theorem-3.2").quick | {"m": 64}
    p = PrefixRegression.slow(rho, settings, 0)
    assert p.X.norm(dim=1).max() <= 1
    torch.testing.assert_close(p.Y.norm(dim=1), torch.ones(3, dtype=torch.float64))
    r, s = vectorise(SLOW), rho**2
    values = {"paper": s * math.exp(s), "exact": math.exp(s) * (1 + s) - 1 - 2 * s}
    for kind, value in values.items():
        K = prefix_limit(p.X, sigma=1.0, kind=kind)
        torch.testing.assert_close(K @ r, value * r, rtol=1e-9, atol=1e-15)
    assert limit_ratio(p.X, 1.0) == pytest.approx(values["exact"] / values["paper"], rel=1e-9)
