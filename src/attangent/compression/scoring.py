"""Which tokens of a prompt a model needs to say the prompt again, and how many of them each head gets.

The score of a token in a KV head is the largest attention that any query of a repetition of the prompt pays
to it, as in KVzip (arXiv 2505.23416). The best of all heads together are kept, so that heads which look up
facts get many tokens and heads which look at the last few get hardly any.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention.fast import merged
from attangent.compression.capture import PromptCache, prompt_part, run
from attangent.compression.problem import LayerProblem
from attangent.compression.text import SINKS, Calibration

_AT_ONCE = 4
_WEIGHTS = 1 << 24

Scores = Mapping[str, Tensor]
"""For each layer the scores (Hkv, m) of the prompt's tokens."""
Kept = dict[str, list[Tensor]]
"""For each layer and KV head the places in the prompt of the tokens it keeps, in order."""


def attention_scores(
    model: Any, cache: PromptCache, text: Calibration, progress: Callable[[int], Any] = lambda done: None
) -> dict[str, Tensor]:
    """The largest attention that any query of the text, read behind the whole prompt, pays to each token."""
    found: dict[str, Tensor] = {}
    for rows in torch.arange(len(text)).split(_AT_ONCE):
        ids, valid = text.batch(rows.tolist())
        scorer = _Scorer(cache, valid)
        with torch.no_grad():
            run(model, ids, cache.length, scorer, logits_to_keep=1)
        for name, scores in scorer.scores.items():
            found[name] = torch.maximum(found[name], scores) if name in found else scores
        progress(len(rows))
    return found


class _Scorer:
    """Answers with the exact attention and notes the largest share of each token."""

    def __init__(self, cache: PromptCache, valid: Tensor):
        self.cache, self.valid, self.scores = cache, valid, {}

    def __call__(self, call: AttentionCall) -> Tensor:
        keys, values = self.cache.layers[call.layer]
        layer = LayerProblem.of(call, self.valid, keys, values, beside=self.cache.beside(call))
        part = prompt_part(call, keys, values)
        output = merged((layer.output, layer.lse), part)[0]
        total = layer.rows(torch.logaddexp(layer.lse, part[1]).unsqueeze(-1))
        self.scores[call.layer] = _largest(layer, layer.rows(call.q), total)
        return output.to(call.q.dtype)


def _largest(layer: LayerProblem, queries: Tensor, total: Tensor) -> Tensor:
    """max over n of e^(score - total) for queries (Hkv, n, d): (Hkv, m), a bounded part at once."""
    at_once = max(1, _WEIGHTS // layer.keys[..., 0].numel())
    parts = zip(queries.split(at_once, dim=1), total.split(at_once, dim=1), strict=True)
    tops = [(layer.call.scores(q, layer.keys) - lse).amax(dim=1) for q, lse in parts]
    return torch.stack(tops).amax(dim=0).exp().float()


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
