"""The default method: tokens needed to recall the prompt, more of them for heads that need more."""

from torch import Tensor

from attangent.compression.attribution import Chosen, Scores, best_tokens
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.problem import HeadProblem, Solution, refined, refitted


class RecallMethod(CompressionMethod):
    """Head sizes for a fixed total; masses and values in closed form, then refined with the keys.

    Head sizes for a total are KVzip's idea. The closed form is that of Attention Matching (arXiv 2602.16284),
    found independently here. Scores by effect and moved keys are ours.

    Example:
        >>> RecallMethod.name, RecallMethod.weighted
        ('recall', True)
    """

    name = "recall"

    def choose(self, scores: Scores, size: int) -> Chosen:
        """Choose the best tokens of all heads together."""
        return best_tokens(scores, size)

    def fit_head(self, problem: HeadProblem, chosen: Tensor) -> Solution:
        """Fit masses and values in closed form and refine them together with the keys."""
        return refined(problem, refitted(problem, chosen))
