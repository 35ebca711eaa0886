"""The rival that merges every token into the nearest of the most attended ones."""

import torch

from attangent.compression.methods.base import HeadwiseMethod
from attangent.compression.methods.select import most_attended
from attangent.compression.problem import HeadProblem, Solution


class MergeMethod(HeadwiseMethod):
    """Means of the tokens that lie nearest, with their counts as masses."""

    name = "merge"

    def solve(self, problem: HeadProblem, size: int) -> Solution:
        chosen = most_attended(problem, size)
        nearest = torch.cdist(problem.keys, problem.keys[chosen]).argmin(dim=1)
        belongs = torch.nn.functional.one_hot(nearest, len(chosen)).float()
        counts = belongs.sum(dim=0).clamp(min=1)
        return (
            belongs.mT @ problem.keys / counts.unsqueeze(1),
            counts,
            belongs.mT @ problem.values / counts.unsqueeze(1),
        )
