"""The rival that keeps the first and the most attended tokens as they are (KV selection)."""

import torch
from torch import Tensor

from attangent.compression.methods.base import HeadwiseMethod
from attangent.compression.problem import HeadProblem, Solution
from attangent.compression.text import SINKS


class SelectMethod(HeadwiseMethod):
    """The most attended tokens, unchanged."""

    name = "select"

    def solve(self, problem: HeadProblem, size: int) -> Solution:
        chosen = most_attended(problem, size)
        return problem.keys[chosen], torch.ones_like(problem.keys[chosen, 0]), problem.values[chosen]


def most_attended(problem: HeadProblem, size: int) -> Tensor:
    """The first tokens of the prompt and those that draw most attention, in order."""
    scores = problem.weights.sum(dim=0)
    scores[:SINKS] = torch.inf
    return scores.topk(size).indices.sort().values
