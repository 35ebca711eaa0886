"""Which tokens of a prompt each head keeps, by the scores of all of them.

The best of all heads together are kept, so that heads which look up facts get many tokens and heads which
look at the last few get hardly any, as in KVzip (arXiv 2505.23416).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from attangent.compression.text import SINKS

Scores = Mapping[str, Tensor]
"""For each layer the scores (Hkv, m) of the prompt's tokens."""
Kept = dict[str, list[Tensor]]
"""For each layer and KV head the places in the prompt of the tokens it keeps, in order."""


def best_tokens(scores: Scores, size: int) -> Kept:
    """The `size` x heads best tokens of all layers and heads together; the first tokens always."""
    together = _with_sinks(scores)
    count = min(size * together[..., 0].numel(), together.numel())
    kept = torch.zeros(together.numel(), dtype=torch.bool)
    kept[together.flatten().topk(count).indices] = True
    places = kept.view(together.shape)
    return {
        name: [head.nonzero()[:, 0] for head in layer] for name, layer in zip(scores, places, strict=True)
    }


def _with_sinks(scores: Scores) -> Tensor:
    """All scores (layers, Hkv, m), those of the first tokens infinite."""
    together = torch.stack([layer.float().cpu() for layer in scores.values()])
    together[..., :SINKS] = torch.inf
    return together
