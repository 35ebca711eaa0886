"""The method for other engines: as many tokens in every head, all with a mass of 1."""

import torch
from jaxtyping import Float
from torch import Tensor

from attangent.compression.attribution import Chosen, Scores, best_of_each_head
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.problem import HeadProblem, Solution, fitted_values, refined, refitted

_KEY_RIDGE = 1e-3
_ROWS = 1024
_LARGEST_SHIFT = 6.0
_EVERY_QUERY = 0.1


class PlainMethod(CompressionMethod):
    """The tokens that each head needs most, with masses folded into the keys, refined.

    Such states are an ordinary KV cache, which transformers and peft can load.

    Example:
        >>> PlainMethod.name, PlainMethod.weighted
        ('plain', False)
    """

    name = "plain"
    weighted = False

    def choose(self, scores: Scores, size: int) -> Chosen:
        """Choose the best tokens of every head."""
        return best_of_each_head(scores, size)

    def fit_head(self, problem: HeadProblem, chosen: Tensor) -> Solution:
        """Fold the masses into the keys, then refine keys and values."""
        return refined(problem, folded(problem, chosen), masses=False)


def folded(problem: HeadProblem, chosen: Tensor) -> Solution:
    """Give the chosen tokens masses of 1: fold the masses of the closed form into their keys."""
    keys, masses, _ = refitted(problem, chosen)
    steps = key_steps(problem.thinned(_ROWS), keys, masses)
    # exp(q.s_j) multiplies the attention to token j, as a mass of that size would.
    weights = problem.attention_to(keys) * (problem.queries @ steps.mT).exp()
    ones = torch.ones_like(masses)
    return keys + steps, ones, fitted_values(problem, weights, ones, problem.values[chosen])


def key_steps(
    problem: HeadProblem, keys: Float[Tensor, "r d"], masses: Float[Tensor, " r"]
) -> Float[Tensor, "r d"]:
    """Return steps s_j of the keys with q.s_j close to log k_j, above all for queries that see token j.

    s_j = argmin sum_q u_j (q.s_j - log k_j)^2 + ridge |s_j|^2, in closed form, where u_j = w_j k_j plus a
    part of its mean, and w_j is the attention of q to the token. Logarithms are clamped to +-6, and steps
    that would move some logit by more are shortened.
    """
    q = problem.queries.double()
    weight = (problem.attention_to(keys) * masses).double()  # (n, r)
    # Without a part of the mean, queries that hardly see the token today could see it after the step.
    weight = weight + _EVERY_QUERY * weight.mean(dim=0) + 1e-12
    target = masses.double().log().clamp(-_LARGEST_SHIFT, _LARGEST_SHIFT)
    # One product over the queries gives the Gram matrices (d, d) of all tokens.
    pairs = (q.unsqueeze(2) * q.unsqueeze(1)).flatten(1)  # (n, d d)
    grams = (weight.mT @ pairs).unflatten(1, (q.shape[1], q.shape[1]))
    ridge = _KEY_RIDGE * grams.diagonal(dim1=1, dim2=2).mean(dim=1).clamp(min=1e-12)
    grams.diagonal(dim1=1, dim2=2).add_(ridge.unsqueeze(1))
    right = (weight.mT @ q) * target.unsqueeze(1)
    steps = torch.linalg.solve(grams, right)
    largest = (q @ steps.mT).abs().amax(dim=0).clamp(min=_LARGEST_SHIFT)
    return (steps * (_LARGEST_SHIFT / largest).unsqueeze(1)).float()
