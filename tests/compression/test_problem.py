"""Masses and values of chosen tokens against what defines them."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent.adapters.call import AttentionCall
from attangent.attention.fit import non_negative_solution
from attangent.compression.problem import LayerProblem, fitted_masses, fitted_values
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


def test_masses_by_products_in_float32_are_those_of_float64():
    given = problem(n=400, m=60, alike=10)
    design, ridge = given.weights_of(torch.arange(40)), 1e-4
    exact = design.double()
    norms = exact.square().mean(dim=0).sqrt()
    expected = non_negative_solution(exact / norms, given.share.double(), ridge) / norms
    torch.testing.assert_close(
        fitted_masses(design, given.share, ridge).double(), expected, rtol=1e-3, atol=1e-3
    )
    assert (expected == 0).any()
    assert (expected > 0.5).any()


def test_values_by_products_in_float32_are_those_of_float64():
    given, chosen = problem(n=400, m=60, alike=10), torch.arange(40)
    weights, masses, start = given.weights_of(chosen), torch.ones(40), given.values[chosen]
    part = (weights * masses).double()
    total = (part.sum(dim=1) + given.rest).unsqueeze(1)
    design, wanted = part / total, given.output - given.rest.unsqueeze(1) / total * given.beside
    gram = design.mT @ design
    ridge = 1e-2 * gram.diagonal().mean() * torch.eye(40, dtype=torch.float64)
    change = torch.linalg.solve(gram + ridge, design.mT @ (wanted - design @ start.double()))
    found = fitted_values(given, weights, masses, start)
    torch.testing.assert_close(found, (start + change).float(), rtol=1e-4, atol=1e-4)
    assert change.abs().max() > 0.1


@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("massive", [False, True])
def test_a_head_has_the_attention_of_one_softmax_over_prompt_and_text(softcap, massive):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 8, generator=draw) for heads in (4, 2, 2))
    keys, values = torch.randn(2, 7, 8, generator=draw), torch.randn(2, 7, 8, generator=draw)
    masses = torch.rand(2, 7, generator=draw) + 0.5
    call, valid = AttentionCall("", q, k, v, None, True, 0.5, softcap), torch.ones(2, 5, dtype=torch.bool)
    layer = LayerProblem(call, valid, keys, values, *call.tokens(), masses=list(masses) if massive else None)
    for head, found in enumerate(layer.heads()):
        rows = layer.rows(q)[head]
        text = torch.cat([call.scores(q[b, h], k[b, head]) for h in (2 * head, 2 * head + 1) for b in (0, 1)])
        text = text.masked_fill(torch.ones(5, 5).triu(1).bool().repeat(4, 1), -torch.inf)
        logits = call.scores(rows, keys[head]) + (masses[head].log() if massive else 0)
        chances = torch.cat([logits, text], dim=1).softmax(dim=1)
        near = torch.cat([v[b, head].expand(5, 5, 8) for _ in range(2) for b in (0, 1)])
        output = chances[:, :7] @ values[head] + (chances[:, 7:].unsqueeze(2) * near).sum(dim=1)
        torch.testing.assert_close(found.weights, chances[:, :7])
        torch.testing.assert_close(found.share, chances[:, :7].sum(dim=1))
        torch.testing.assert_close(found.rest, chances[:, 7:].sum(dim=1))
        torch.testing.assert_close(found.output, output)
        torch.testing.assert_close(found.weights_of(torch.tensor([1, 4])), chances[:, [1, 4]])
