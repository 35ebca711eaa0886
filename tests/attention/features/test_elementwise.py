import math

import pytest
import torch

from tests.attention.cases import make_map, normal


def test_elu_and_printed_values_against_the_formulas():
    dim = 16
    x = normal(100, dim, scale=2)
    scaled = x * dim**-0.25
    torch.testing.assert_close(make_map("elu", dim)(x), torch.nn.functional.elu(scaled) + 1)
    below = dim**-0.25 * torch.where(x >= 0, x, x.exp()) + 1
    torch.testing.assert_close(make_map("printed", dim)(x), below)


def test_printed_formula_jumps_at_zero_and_elu_does_not():
    dim = 16
    step = torch.zeros(2, dim, dtype=torch.float64)
    step[0] -= 1e-12
    printed, elu = make_map("printed", dim)(step), make_map("elu", dim)(step)
    assert printed[0, 0] - printed[1, 0] == pytest.approx(dim**-0.25, abs=1e-9)
    assert (elu[0] - elu[1]).abs().max() < 1e-11


@pytest.mark.parametrize("name", ["elu", "printed"])
def test_authors_maps_give_d_where_exp_gives_one(name):
    zero = torch.zeros(1, 9, dtype=torch.float64)
    features = make_map(name, 9)
    assert (features(zero) @ features(zero).T).item() == 9
    assert math.exp(0) == 1
