import math

import pytest
import torch

from attangent import AttangentError
from attangent.kernels import unit_data
from attangent.papers.p1_prefix.guarantee import concentration_bound, prefix_guarantee
from attangent.papers.p1_prefix.network import PrefixNetwork

X, Y = unit_data(4, 3, 3, seed=0)
NETWORK = PrefixNetwork(3, 512)


def test_numbers_are_those_of_the_definitions():
    given = prefix_guarantee(NETWORK, X, Y, delta=0.05)
    lam = torch.linalg.eigvalsh(NETWORK.kernel(X, kind="paper"))[0].item()
    B = 10 * math.sqrt(math.log(12 / 0.05))
    assert pytest.approx(B) == given.B
    assert given.lambda_min == pytest.approx(lam)
    width = lam**-2 * 12**2 * math.sqrt(math.log(12 / 0.05))
    assert given.log10_width == pytest.approx(math.log10(width) + 30 * B / math.log(10))
    assert given.log10_rate == pytest.approx(math.log10(lam / (512 * 144)) - 16 * B / math.log(10))
    assert given.log10_radius == pytest.approx(math.log10(lam / (16 * math.sqrt(12))) - 22 * B / math.log(10))
    movement = 2 / lam * math.sqrt(12) * Y.norm().item() / 512
    assert given.log10_movement == pytest.approx(math.log10(movement) + 20 * B / math.log(10))


def test_no_real_prefix_is_long_enough():
    assert prefix_guarantee(NETWORK, X, Y).log10_width > 100


def test_a_kernel_that_is_not_definite_asks_for_infinitely_much():
    doubled = torch.cat([X, X[:1]]), torch.cat([Y, Y[:1]])
    given = prefix_guarantee(NETWORK, *doubled)
    assert given.log10_width > prefix_guarantee(NETWORK, X, Y).log10_width + 20


def test_the_bound_is_at_least_one():
    assert concentration_bound(10, 1e-9, 0.05) == 1.0


@pytest.mark.parametrize(
    ("X", "Y", "delta", "message"),
    [
        (2 * X, Y, 0.05, "X has a row of norm 2, expected at most 1"),
        (X, 10 * Y, 0.05, "Y has a row of norm"),
        (X, Y[:2], 0.05, "Y has 2 rows"),
        (X.long(), Y, 0.05, "floating point"),
        (X * math.nan, Y, 0.05, "NaN"),
        (X, Y, 0.5, "delta is 0.5"),
        (X, Y, 0.0, "delta is 0.0"),
    ],
)
def test_what_the_theorem_excludes_is_refused(X, Y, delta, message):
    with pytest.raises(AttangentError, match=message):
        prefix_guarantee(NETWORK, X, Y, delta)
