"""Keys that are moved: virtual tokens of one head trained together on what its queries should get."""

from dataclasses import replace

import torch
from torch import Tensor

from attangent._random import generator
from attangent.compression.problem import HeadProblem, Solution, fitted_values

_STEPS = 25
_RATE = 0.03
_ROWS = 2048
_SMALLEST_PART = 1e-4


def refined(problem: HeadProblem, start: Solution) -> Solution:
    """Keys, log masses and values after a few steps of Adam on |output - what it should be|^2, from `start`.

    Steps are in units of the standard deviations of the prompt's keys and values, and take a random part of
    the queries each; values are solved for at the end. `start` is given back where it fits better.
    """
    moved = _trained(problem, start)
    keys, masses, values = moved
    weights = problem.attention_to(keys)
    moved = keys, masses, fitted_values(problem, weights, masses, values)
    return min(start, moved, key=lambda solution: squared_error(problem, solution))


def squared_error(problem: HeadProblem, solution: Solution) -> float:
    """The mean of |output - what it should be|^2 over the queries."""
    keys, masses, values = solution
    return _errors(problem, keys, masses, values).mean().item()


def _errors(problem: HeadProblem, keys: Tensor, masses: Tensor, values: Tensor) -> Tensor:
    part = problem.attention_to(keys) * masses
    total = part.sum(dim=1) + problem.rest
    output = (part @ values + problem.rest.unsqueeze(1) * problem.beside) / total.unsqueeze(1)
    return (output - problem.output).square().sum(dim=1)


def _trained(problem: HeadProblem, start: Solution) -> Solution:
    keys, masses, values = start
    units = [max(x.std(unbiased=False).item(), 1e-6) for x in (problem.keys, problem.values)]
    log_masses = masses.clamp(min=_SMALLEST_PART * masses.max().item()).log()
    draw, rows = generator(0, "refined keys"), len(problem.rest)
    slim = replace(problem, weights=problem.weights[:, :0])  # not needed here, and large
    with torch.enable_grad():
        steps = [torch.zeros_like(x, requires_grad=True) for x in (keys, log_masses, values)]
        optimizer = torch.optim.Adam(steps, lr=_RATE, betas=(0.9, 0.95))
        for step in range(_STEPS):
            optimizer.param_groups[0]["lr"] = _RATE * (1 - step / _STEPS)
            some = torch.randint(rows, (min(_ROWS, rows),), generator=draw).to(keys.device)
            now = keys + units[0] * steps[0], (log_masses + steps[1]).exp(), values + units[1] * steps[2]
            loss = _errors(slim.some(some), *now).mean() / units[1] ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    c, b, u = (step.detach() for step in steps)
    return keys + units[0] * c, (log_masses + b).exp(), values + units[1] * u
