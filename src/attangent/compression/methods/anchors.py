"""Tokens of the prompt with masses and values of their own, as many for every head, in closed form."""

import torch
from torch import Tensor

from attangent.compression.methods.base import HeadwiseMethod
from attangent.compression.problem import HeadProblem, Solution, fitted_masses, fitted_values
from attangent.compression.text import SINKS

_MASS_RIDGE = 1e-4
_PICK_RIDGE = 1e-3
_PICKED_ON = 1024
_SMALLEST_MASS = 1e-8


class AnchorsMethod(HeadwiseMethod):
    """Tokens that explain most of what the prompt gives, refitted."""

    name = "anchors"

    def solve(self, problem: HeadProblem, size: int) -> Solution:
        return refitted(problem, pick(problem, size))


def refitted(problem: HeadProblem, chosen: Tensor) -> Solution:
    """The chosen tokens of the prompt with new masses and values.

    Masses solve sum_j w_j k_j = share over k >= 0; with them fixed the output is linear in the values, which
    are found by ridge regression about the prompt's own. w_j is a query's attention to token j.
    """
    weights = problem.weights_of(chosen)
    masses = fitted_masses(weights, problem.share, _MASS_RIDGE).clamp(min=_SMALLEST_MASS)
    values = fitted_values(problem, weights, masses, problem.values[chosen])
    if problem.masses is not None:
        masses = (masses * problem.masses[chosen]).clamp(min=_SMALLEST_MASS)
    return problem.keys[chosen], masses, values


def pick(problem: HeadProblem, size: int) -> Tensor:
    """Tokens chosen one after another, each for what the ones before leave unexplained, in order.

    Explained is, by least squares on the attention to the chosen tokens, what the whole prompt gives each
    query: its mass and its output. The next token is the one that explains most of the rest: orthogonal least
    squares, by a pivoted Cholesky factor of the tokens' Gram matrix, which never exists as a whole. The
    first tokens come first. `_PICKED_ON` queries decide.
    """
    rows = slice(None, None, max(1, len(problem.rest) // _PICKED_ON))
    weights = problem.some(rows).weights.mT.contiguous()  # (m, n)
    left, open_part = weights.square().sum(dim=1), weights @ given_by_prompt(problem)[rows]
    ridge = _PICK_RIDGE * left.mean()
    factor, chosen = weights.new_zeros(len(weights), size), torch.zeros(size, dtype=torch.long)
    for step in range(size):
        scores = open_part.square().sum(dim=1) / (left.clamp(min=0) + ridge)
        scores[chosen[:step]] = -torch.inf
        best = step if step < SINKS else int(scores.argmax())
        column = weights @ weights[best] - factor[:, :step] @ factor[best, :step]
        column /= (column[best].clamp(min=0) + ridge).sqrt()
        open_part.addr_(column, open_part[best].clone() / (left[best].clamp(min=0) + ridge).sqrt(), alpha=-1)
        left -= column.square()
        factor[:, step], chosen[step] = column, best
    return chosen.sort().values


def given_by_prompt(problem: HeadProblem) -> Tensor:
    """What the prompt gives each query, (n, 1 + dv): its mass, and its output in units that weigh as much."""
    output = problem.output - problem.rest.unsqueeze(1) * problem.beside
    unit = problem.values.std(unbiased=False).clamp(min=1e-6) * problem.values.shape[1] ** 0.5
    return torch.cat([problem.share.unsqueeze(1), output / unit], dim=1)
