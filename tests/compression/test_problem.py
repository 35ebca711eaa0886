"""Masses, values and refined keys of one head against their definitions."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.adapters.call import AttentionCall
from attangent.attention.fit import non_negative_solution
from attangent.compression.problem import (
    LayerProblem,
    error_gradients,
    fitted_masses,
    fitted_values,
    refined,
    refitted,
    squared_error,
)
from tests.compression.methods.cases import error, problem


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
        output = design @ values + (given.rest.unsqueeze(1) / total * given.rest_output).double()
        ridge = 1e-2 * design.square().sum(dim=0).mean()
        return (output - given.output).square().sum() + ridge * (values - start).square().sum()

    values = found.double().requires_grad_()
    loss(values).backward()
    assert values.grad is not None
    assert values.grad.abs().max() < 1e-3 * loss(start.double())


def test_masses_by_products_in_float32_are_those_of_float64():
    given = problem(n=400, m=60, alike=10)
    design, ridge = given.attention_to(given.keys[:40]), 1e-4
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
    weights, masses, start = given.attention_to(given.keys[chosen]), torch.ones(40), given.values[chosen]
    part = (weights * masses).double()
    total = (part.sum(dim=1) + given.rest).unsqueeze(1)
    design, wanted = part / total, given.output - given.rest.unsqueeze(1) / total * given.rest_output
    gram = design.mT @ design
    ridge = 1e-2 * gram.diagonal().mean() * torch.eye(40, dtype=torch.float64)
    change = torch.linalg.solve(gram + ridge, design.mT @ (wanted - design @ start.double()))
    found = fitted_values(given, weights, masses, start)
    torch.testing.assert_close(found, (start + change).float(), rtol=1e-4, atol=1e-4)
    assert change.abs().max() > 0.1


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_a_head_has_the_attention_of_one_softmax_over_prompt_and_text(softcap):
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, heads, 5, 8, generator=draw) for heads in (4, 2, 2))
    keys, values = torch.randn(2, 7, 8, generator=draw), torch.randn(2, 7, 8, generator=draw)
    call, valid = AttentionCall("", q, k, v, None, True, 0.5, softcap), torch.ones(2, 5, dtype=torch.bool)
    layer = LayerProblem(call, valid, keys, values, *call.tokens())
    for head, found in enumerate(layer.heads()):
        rows = layer.rows(q)[head]
        text = torch.cat([call.scores(q[b, h], k[b, head]) for h in (2 * head, 2 * head + 1) for b in (0, 1)])
        text = text.masked_fill(torch.ones(5, 5).triu(1).bool().repeat(4, 1), -torch.inf)
        logits = call.scores(rows, keys[head])
        chances = torch.cat([logits, text], dim=1).softmax(dim=1)
        near = torch.cat([v[b, head].expand(5, 5, 8) for _ in range(2) for b in (0, 1)])
        output = chances[:, :7] @ values[head] + (chances[:, 7:].unsqueeze(2) * near).sum(dim=1)
        torch.testing.assert_close(found.weights, chances[:, :7])
        torch.testing.assert_close(found.share, chances[:, :7].sum(dim=1))
        torch.testing.assert_close(found.rest, chances[:, 7:].sum(dim=1))
        torch.testing.assert_close(found.output, output)
        torch.testing.assert_close(found.attention_to(keys[head][[1, 4]]), chances[:, [1, 4]])


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), count=st.integers(1, 12))
def test_the_fit_is_never_worse_than_its_start(seed, count):
    given_ = problem(seed=seed)
    start = refitted(given_, torch.arange(count))
    assert squared_error(given_, refined(given_, start)) <= squared_error(given_, start)


def test_keys_that_move_stand_for_many_tokens():
    given_ = problem(n=600, m=40, seed=3)
    start = refitted(given_, torch.arange(6))
    found = refined(given_, start)
    assert squared_error(given_, found) < 0.9 * squared_error(given_, start)
    assert not torch.equal(found[0], start[0])
    assert (found[1] > 0).all()


def test_masses_that_are_fixed_stay_as_they_are_while_keys_move():
    given_ = problem(n=600, m=40, seed=3)
    keys, _, values = refitted(given_, torch.arange(6))
    start = keys, torch.ones(6), values
    found = refined(given_, start, steps=50, masses=False)
    assert (found[1] == 1).all()
    assert squared_error(given_, found) < 0.9 * squared_error(given_, start)


def test_the_error_is_that_of_the_output():
    given_, chosen = problem(), torch.arange(5)
    start = refitted(given_, chosen)
    expected = error(given_, start, chosen) * given_.values.shape[1]
    torch.testing.assert_close(squared_error(given_, start), expected, rtol=1e-4, atol=1e-7)


def test_the_same_problem_gives_the_same_tokens():
    given_ = problem(n=3000, seed=1)
    start = refitted(given_, torch.arange(5))
    one, other = refined(given_, start), refined(given_, start)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_gradients_are_those_of_autograd(softcap):
    given_ = problem(n=50, seed=2)
    tensors = {"rest", "rest_output", "output", "queries", "total"}
    exact = replace(given_, softcap=softcap, **{name: getattr(given_, name).double() for name in tensors})
    keys, masses, values = (x.double() for x in refitted(given_, torch.arange(6)))
    given = [x.clone().requires_grad_() for x in (keys, masses.log(), values)]
    part = exact.attention_to(given[0]) * given[1].exp()
    total = (part.sum(dim=1) + exact.rest).unsqueeze(1)
    output = (part @ given[2] + exact.rest.unsqueeze(1) * exact.rest_output) / total
    slow = torch.autograd.grad((output - exact.output).square().sum(dim=1).mean(), given)
    for found, expected in zip(error_gradients(exact, keys, masses.log(), values), slow, strict=True):
        torch.testing.assert_close(found, expected)
        assert expected.abs().max() > 1e-6
