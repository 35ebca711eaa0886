"""How many tokens of a prompt each head keeps, by the scores of all of them.

The best of all heads together are counted, so that heads which look up facts get many tokens and heads which
look at the last few get hardly any, as in KVzip (arXiv 2505.23416).
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from attangent.compression.text import SINKS

Scores = Mapping[str, Tensor] | Mapping[str, Sequence[Tensor]]
"""For each layer and KV head the scores (m) of its tokens."""
Sizes = dict[str, list[int]]
"""For each layer and KV head how many tokens it keeps."""


def head_sizes(scores: Scores, size: int) -> Sizes:
    """How many of the `size` x heads best tokens each head has."""
    return {name: [len(own) for own in layer] for name, layer in best_tokens(scores, size).items()}


def best_tokens(scores: Scores, size: int) -> dict[str, list[Tensor]]:
    """The `size` x heads best tokens of all layers and heads together; the first tokens always."""
    heads = [head.float().cpu() for layer in scores.values() for head in layer]
    together = pad_sequence(heads, batch_first=True, padding_value=-torch.inf)
    together[:, :SINKS] = torch.inf
    count = min(size * len(heads), sum(map(len, heads)))
    kept = torch.zeros(together.numel(), dtype=torch.bool)
    kept[together.flatten().topk(count).indices] = True
    places = iter([row.nonzero()[:, 0] for row in kept.view(together.shape)])
    return {name: [next(places) for _ in layer] for name, layer in scores.items()}
