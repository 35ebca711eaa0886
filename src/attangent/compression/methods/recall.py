"""Tokens that the model needs to say the prompt again, as many for each head as it needs, refitted."""

import torch

from attangent.compression.methods.anchors import refitted
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.scoring import Kept, Scores, best_tokens
from attangent.compression.problem import HeadProblem, LayerProblem, PromptState, Solution
from attangent.compression.refine import refined

_FITTED_ON = 4096


class RecallMethod(CompressionMethod):
    """Sizes by head for a fixed total; masses and values in closed form, then all refined, keys too.

    Sizes by head for a total are KVzip's idea, the closed form is that of Attention Matching (arXiv
    2602.16284), which was found independently here as `anchors`; scores by effect and moved keys are ours.
    """

    name = "recall"
    by_scores = True
    foreseen = True

    def kept(self, scores: Scores, size: int) -> Kept:
        return best_tokens(scores, size)

    def layer_state(self, layer: LayerProblem, size: int) -> PromptState:
        kept = layer.kept or self._alone(layer, size)
        heads = zip(layer.heads(_FITTED_ON), kept, strict=True)
        return layer.state([_solved(head, chosen) for head, chosen in heads])

    @staticmethod
    def _alone(layer: LayerProblem, size: int) -> list[torch.Tensor]:
        """What a layer keeps when there is no other: the most attended of all its heads together."""
        scores = torch.stack([head.weights.amax(dim=0) for head in layer.heads()])
        return best_tokens({layer.call.layer: scores}, size)[layer.call.layer]


def _solved(problem: HeadProblem, chosen: torch.Tensor) -> Solution:
    return refined(problem, refitted(problem, chosen))
