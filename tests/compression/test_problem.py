"""Masses and values of chosen tokens against what defines them."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.compression.problem import fitted_masses, fitted_values
from tests.compression.methods.cases import problem


@given(seed=st.integers(0, 100))
def test_masses_are_the_best_that_are_not_negative(seed):
    draw = torch.Generator().manual_seed(seed)
    design = torch.rand(60, 6, generator=draw)
    target = design @ torch.randn(6, generator=draw)
    found = fitted_masses(design, target, 1e-8)
    assert (found >= 0).all()
    gradient = design.mT @ (design @ found - target) / 60
    assert (gradient > -1e-4).all()
    assert (gradient[found > 1e-6].abs() < 1e-4).all()


def test_values_solve_their_ridge_regression():
    given, chosen = problem(), torch.arange(8)
    weights, masses = given.weights[:, chosen], torch.rand(8) + 0.5
    start = given.values[chosen]
    found = fitted_values(given, weights, masses, start)

    def loss(values):
        part = weights * masses
        total = (part.sum(dim=1) + given.rest).unsqueeze(1)
        design = (part / total).double()
        output = design @ values + (given.rest.unsqueeze(1) / total * given.beside).double()
        ridge = 1e-2 * design.square().sum(dim=0).mean()
        return (output - given.output).square().sum() + ridge * (values - start).square().sum()

    values = found.double().requires_grad_()
    loss(values).backward()
    assert values.grad is not None
    assert values.grad.abs().max() < 1e-3 * loss(start.double())
