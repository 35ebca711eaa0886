"""Keys that are moved: virtual tokens of one head trained together on what its queries should get."""

from collections.abc import Iterator
from itertools import cycle, islice

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.compression.problem import HeadProblem, Solution, fitted_values

_STEPS = 25
_RATE = 0.03
_ROWS = 2048
_SMALLEST_PART = 1e-4


def refined(problem: HeadProblem, start: Solution, steps: int = _STEPS, masses: bool = True) -> Solution:
    """Keys, log masses and values after a few steps of Adam on |output - what it should be|^2, from `start`.

    Steps are in units of the standard deviations of the prompt's keys and values, and take a random part of
    the queries each; values are solved for at the end. `start` is given back where it fits better. Without
    `masses` these stay as they are.
    """
    moved = _trained(problem, start, steps, masses)
    keys, k, values = moved
    weights = problem.attention_to(keys)
    moved = keys, k, fitted_values(problem, weights, k, values)
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


def error_gradients(problem: HeadProblem, keys: Tensor, log_masses: Tensor, values: Tensor) -> list[Tensor]:
    """The gradients of the mean squared error with respect to keys c, log masses b and values u.

    With w_ij the part of token j in what query i sees, o_i = sum_j w_ij u_j + (rest) the output and
    e_i = 2 (o_i - what it should be) / n:  d/du = w' e,  d/db = column sums of s,  d/dc = s' q, where
    s_ij = w_ij e_i.(u_j - o_i); under a softcap of C the last has s_ij (1 - (logit_ij / C)^2).
    """
    logits = problem.logits_on(keys)
    parts = (logits - problem.total.unsqueeze(1)).add_(log_masses).exp_()
    total = (parts.sum(dim=1) + problem.rest).unsqueeze(1)
    parts /= total
    output = parts @ values + problem.rest.unsqueeze(1) / total * problem.beside
    errors = (output - problem.output) * (2 / len(output))
    slopes = (errors @ values.mT).sub_((errors * output).sum(dim=1, keepdim=True)).mul_(parts)
    of_masses, of_values = slopes.sum(dim=0), parts.mT @ errors
    if problem.softcap is not None:
        slopes *= 1 - (logits / problem.softcap).square()
    return [slopes.mT @ problem.queries, of_masses, of_values]


def _trained(problem: HeadProblem, start: Solution, steps: int, weighted: bool) -> Solution:
    """`steps` of Adam; where tokens are not `weighted`, log masses have steps of no size."""
    keys, masses, values = start
    units = [max(x.std(unbiased=False).item(), 1e-6) for x in (problem.keys, problem.values)]
    log_masses = masses.clamp(min=_SMALLEST_PART * masses.max().item()).log()
    scales = units[0], float(weighted), units[1]
    starts = keys, log_masses, values
    moves = [torch.zeros_like(x) for x in starts]
    optimizer = torch.optim.Adam(moves, lr=_RATE, betas=(0.9, 0.95), fused=True)
    for step, some in enumerate(islice(_batches(problem), steps)):
        optimizer.param_groups[0]["lr"] = _RATE * (1 - step / steps)
        now = [torch.add(x, moved, alpha=unit) for x, moved, unit in zip(starts, moves, scales, strict=True)]
        slopes = error_gradients(some, *now)
        for moved, slope, unit in zip(moves, slopes, scales, strict=True):
            moved.grad = slope * (unit / units[1] ** 2)
        optimizer.step()
    c, b, u = moves
    return keys + units[0] * c, (log_masses + b).exp(), values + units[1] * u


def _batches(problem: HeadProblem) -> Iterator[HeadProblem]:
    """The queries in random parts of `_ROWS`, over and over."""
    order = torch.randperm(len(problem.rest), generator=generator(0, "refined keys"))
    parts = order.to(problem.keys.device).tensor_split(max(1, round(len(order) / _ROWS)))
    return cycle([problem.some(part) for part in parts])
