"""Tokens that the model needs to say the prompt again, as many for each head as it needs, refitted."""

import torch
from torch import Tensor

from attangent.compression.methods.anchors import refitted
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.scoring import Scores, Sizes, head_sizes
from attangent.compression.problem import HeadProblem, LayerProblem, PromptState, Solution
from attangent.compression.refine import refined
from attangent.compression.text import SINKS

_FITTED_ON = 4096


class RecallMethod(CompressionMethod):
    """Sizes by head for a fixed total, tokens by attention; masses and values in closed form, then all
    refined, keys too.

    Sizes by head for a total are KVzip's idea, the closed form is that of Attention Matching (arXiv
    2602.16284), which was found independently here as `anchors`; scores by effect and moved keys are ours.
    """

    name = "recall"
    by_scores = True

    def sizes(self, scores: Scores, size: int) -> Sizes:
        return head_sizes(scores, size)

    def layer_state(self, layer: LayerProblem, size: int) -> PromptState:
        sizes = layer.sizes or self._alone(layer, size)
        heads = zip(layer.heads(_FITTED_ON), sizes, strict=True)
        return layer.state([_solved(head, most_looked_at(head, count)) for head, count in heads])

    @staticmethod
    def _alone(layer: LayerProblem, size: int) -> list[int]:
        """The sizes of a layer's heads when there is no other, by the attention to their tokens."""
        scores = torch.stack([head.weights.amax(dim=0) for head in layer.heads()])
        return head_sizes({layer.call.layer: scores}, size)[layer.call.layer]


def most_looked_at(problem: HeadProblem, count: int) -> Tensor:
    """The first tokens of the prompt and those to which some query pays most attention, in order."""
    scores = problem.weights.amax(dim=0)
    scores[:SINKS] = torch.inf
    return scores.topk(count).indices.sort().values


def _solved(problem: HeadProblem, chosen: Tensor) -> Solution:
    return refined(problem, refitted(problem, chosen))
