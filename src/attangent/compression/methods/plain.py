"""Tokens that any engine can hold: as many for every head, and none with a mass of its own."""

import torch
from torch import Tensor

from attangent.compression.methods.anchors import pick, refitted
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.scoring import Kept, Scores, best_of_each_head
from attangent.compression.problem import HeadProblem, LayerProblem, PromptState, Solution, fitted_values
from attangent.compression.refine import refined

_FITTED_ON = 4096
STEPS = 100
_KEY_RIDGE = 1e-3
_ROWS = 1024
_LARGEST_SHIFT = 6.0
_EVERY_QUERY = 0.1


class PlainMethod(CompressionMethod):
    """The tokens that each head needs most, with masses of one.

    What the masses would be is folded into the keys; then keys and values are refined. Such states are a KV
    cache, which transformers and peft take as they are.
    """

    name = "plain"
    weighted = False
    by_scores = True

    def kept(self, scores: Scores, size: int) -> Kept:
        return best_of_each_head(scores, size)

    def layer_state(self, layer: LayerProblem, size: int) -> PromptState:
        kept = layer.kept or [pick(head, size) for head in layer.heads()]
        heads = zip(layer.heads(_FITTED_ON), kept, strict=True)
        return layer.state([self.solved(head, chosen) for head, chosen in heads])

    def solved(self, problem: HeadProblem, chosen: Tensor) -> Solution:
        """The virtual tokens of one head."""
        return refined(problem, folded(problem, chosen), STEPS, masses=False)


def folded(problem: HeadProblem, chosen: Tensor) -> Solution:
    """The chosen tokens with masses of one: what their masses would be is folded into their keys."""
    _, masses, _ = refitted(problem, chosen)
    steps = key_steps(problem.thinned(_ROWS), chosen, masses)
    weights = problem.weights_of(chosen) * (problem.queries @ steps.mT).exp()
    ones = torch.ones_like(masses)
    values = fitted_values(problem, weights, ones, problem.values[chosen])
    return problem.keys[chosen] + steps, ones, values


def key_steps(problem: HeadProblem, chosen: Tensor, masses: Tensor) -> Tensor:
    """Steps s_j (r, d) with q.s_j = log k_j as nearly as can be, above all for queries that see token j.

    s_j = argmin sum_q u_j (q.s_j - log k_j)^2 + ridge |s_j|^2, in closed form, with u_j = w_j k_j and a
    part of its mean for every query; w_j is the attention of q to the token. Logarithms beyond 6 are taken
    as 6, and steps that would move some logit by more are shortened.
    """
    q = problem.queries.double()
    weight = (problem.weights_of(chosen) * masses).double()  # (n, r)
    weight = weight + _EVERY_QUERY * weight.mean(dim=0) + 1e-12
    target = masses.double().log().clamp(-_LARGEST_SHIFT, _LARGEST_SHIFT)
    pairs = (q.unsqueeze(2) * q.unsqueeze(1)).flatten(1)  # (n, d d)
    grams = (weight.mT @ pairs).unflatten(1, (q.shape[1], q.shape[1]))
    ridge = _KEY_RIDGE * grams.diagonal(dim1=1, dim2=2).mean(dim=1).clamp(min=1e-12)
    grams.diagonal(dim1=1, dim2=2).add_(ridge.unsqueeze(1))
    right = (weight.mT @ q) * target.unsqueeze(1)
    steps = torch.linalg.solve(grams, right)
    largest = (q @ steps.mT).abs().amax(dim=0).clamp(min=_LARGEST_SHIFT)
    return (steps * (_LARGEST_SHIFT / largest).unsqueeze(1)).float()
