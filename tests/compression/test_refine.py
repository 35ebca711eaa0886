"""Moved keys never fit worse, and fit better where keys of the prompt alone cannot."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attangent.compression.methods.anchors import refitted
from attangent.compression.refine import error_gradients, refined, squared_error
from tests.compression.methods.cases import error, problem


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
    tensors = {"rest", "beside", "output", "queries", "total"}
    exact = replace(given_, softcap=softcap, **{name: getattr(given_, name).double() for name in tensors})
    keys, masses, values = (x.double() for x in refitted(given_, torch.arange(6)))
    given = [x.clone().requires_grad_() for x in (keys, masses.log(), values)]
    part = exact.attention_to(given[0]) * given[1].exp()
    total = (part.sum(dim=1) + exact.rest).unsqueeze(1)
    output = (part @ given[2] + exact.rest.unsqueeze(1) * exact.beside) / total
    slow = torch.autograd.grad((output - exact.output).square().sum(dim=1).mean(), given)
    for found, expected in zip(error_gradients(exact, keys, masses.log(), values), slow, strict=True):
        torch.testing.assert_close(found, expected)
        assert expected.abs().max() > 1e-6
