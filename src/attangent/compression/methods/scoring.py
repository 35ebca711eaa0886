"""Which tokens of a prompt each head keeps, by the scores of all of them.

The best of all heads together are kept, so that heads which look up facts get many tokens and heads which
look at the last few get hardly any, as in KVzip (arXiv 2505.23416).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attangent.compression.text import SINKS

Scores = Mapping[str, Tensor] | Mapping[str, Sequence[Tensor]]
"""For each layer and KV head the scores (m) of its tokens."""
Kept = dict[str, list[Tensor]]
"""For each layer and KV head the places of the tokens it keeps, in order."""


def best_tokens(scores: Scores, size: int) -> Kept:
    """The `size` x heads best tokens of all layers and heads together; the first tokens always."""
    heads = [head.float().cpu() for layer in scores.values() for head in layer]
    together = pad_sequence(heads, batch_first=True, padding_value=-torch.inf)
    together[:, :SINKS] = torch.inf
    count = min(size * len(heads), sum(map(len, heads)))
    kept = torch.zeros(together.numel(), dtype=torch.bool)
    kept[together.flatten().topk(count).indices] = True
    places = iter([row.nonzero()[:, 0] for row in kept.view(together.shape)])
    return {name: [next(places) for _ in layer] for name, layer in scores.items()}


def best_of_each_head(scores: Scores, size: int) -> Kept:
    """The `size` best tokens of every head by itself; the first tokens always."""

    def best(head: Tensor) -> Tensor:
        own = head.float().cpu().clone()
        own[:SINKS] = torch.inf
        return own.topk(min(size, len(own))).indices.sort().values

    return {name: [best(head) for head in layer] for name, layer in scores.items()}
