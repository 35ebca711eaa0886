"""Masses folded into keys: against the least squares that define them, and what they gain."""

import torch

from attangent.compression.methods.plain import folded, key_steps
from attangent.papers.p1_prefix.prompt_states import pick
from tests.compression.methods.cases import problem


def test_key_steps_solve_their_least_squares():
    given, chosen, masses = problem(), torch.arange(8), torch.rand(8) + 0.5
    steps = key_steps(given, given.keys[chosen], masses).double().requires_grad_()
    weight = (given.weights[:, chosen] * masses).double()
    weight = weight + 0.1 * weight.mean(dim=0)
    q = given.queries.double()
    ridge = 1e-3 * torch.einsum("nr,nd->r", weight, q.square()) / q.shape[1]
    miss = q @ steps.mT - masses.double().log()
    loss = (weight * miss.square()).sum() + (ridge * steps.square().sum(dim=1)).sum()
    (slope,) = torch.autograd.grad(loss, steps)
    assert slope.abs().max() < 1e-4


def test_folded_tokens_have_masses_of_one_and_are_closer_than_plain_ones():
    given = problem(m=24)
    chosen = pick(given, 10)
    keys, masses, values = folded(given, chosen)
    assert (masses == 1).all()

    def error(keys, values):
        logits = given.queries @ (keys - given.keys[chosen]).mT
        part = given.weights[:, chosen] * logits.exp()
        total = (part.sum(dim=1) + given.rest).unsqueeze(1)
        found = (part @ values + given.rest.unsqueeze(1) * given.rest_output) / total
        return (found - given.output).square().mean()

    assert error(keys, values) < 0.5 * error(given.keys[chosen], given.values[chosen])


def test_no_step_moves_a_logit_by_more_than_six():
    given = problem(gain=30.0)
    steps = key_steps(given, given.keys[:12], torch.full((12,), 1e-8))
    assert (given.queries @ steps.mT).abs().max() < 6.001
