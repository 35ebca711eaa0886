"""What each token of a prompt does, head by head, to what the model says behind it; to first order.

Take token j from a head at one query: its output o moves by a_j (o - v_j), with a_j the attention that the
query pays to j. With g the gradient of the margins log(p / (1 - p)) of the tokens that are said, these move
by a_j g.(o - v_j). The size of that is the token's effect there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attangent.adapters.call import AttentionCall
from attangent.attention.fast import merged
from attangent.compression.capture import PromptCache, prompt_part, run
from attangent.compression.problem import LayerProblem
from attangent.compression.text import Calibration, Turn

_AT_ONCE = 384
"""Tokens of the text that are read at once."""
_LARGEST_MARGIN = 8.0
"""What is said more surely than this counts as said whatever happens."""


@dataclass
class TokenScores:
    """By layer (Hkv, m): the largest attention that any query pays to a token, and its largest effect."""

    attention: dict[str, Tensor]
    effect: dict[str, Tensor]

    def together(self) -> dict[str, Tensor]:
        """Both, multiplied: tokens that are looked at, where looking at them changes what is said."""
        return {name: attention * self.effect[name] for name, attention in self.attention.items()}


def token_scores(
    model: Any,
    cache: PromptCache,
    turns: Sequence[Turn],
    progress: Callable[[int], Any] = lambda done: None,
) -> TokenScores:
    """Scores of the prompt's tokens by the answers of `turns`, read behind the whole prompt.

    Effects are parts of the sum of all effects at the same query, so that each token that is said counts as
    much as any other; where the prompt does less than usual they are smaller.
    """
    found = TokenScores({}, {})
    for some in _groups(turns):
        text = Calibration.of([turn.ids for turn in some])
        heard = _heard(model, cache, text, [len(turn.asked) for turn in some])
        sums = torch.stack([one.effects().sum(dim=(0, 1, 3)) for one in heard.values()]).sum(dim=0)
        for name, one in heard.items():
            share = one.effects() / (sums + sums.mean().clamp(min=1e-12)).unsqueeze(-1)
            _note(found.attention, name, one.attention.flatten(1, 2).amax(dim=1))
            _note(found.effect, name, share.flatten(1, 2).amax(dim=1))
        progress(len(some))
    return found


def _note(largest: dict[str, Tensor], name: str, scores: Tensor) -> None:
    largest[name] = torch.maximum(largest[name], scores) if name in largest else scores


def _groups(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Turns in order, so many together that with padding there are at most `_AT_ONCE` tokens."""
    group: list[Turn] = []
    for turn in turns:
        longest = max(len(one.ids) for one in [*group, turn])
        if group and longest * (len(group) + 1) > _AT_ONCE:
            yield group
            group = []
        group.append(turn)
    if group:
        yield group


def _heard(
    model: Any, cache: PromptCache, text: Calibration, asked: Sequence[int]
) -> Mapping[str, "_HeardLayer"]:
    """Attention and gradients of every layer while the text is read."""
    listener = _Listener(cache, text.valid)
    with torch.enable_grad():
        logits = run(model, text.ids, cache.length, listener).logits
        total = margins(logits, text.ids.to(logits.device), _counted(text.valid, asked)).sum()
        gradients = torch.autograd.grad(total, list(listener.nudges.values()))
    for name, gradient in zip(listener.nudges, gradients, strict=True):
        listener.layers[name].gradient = gradient
    return listener.layers


def margins(logits: Tensor, ids: Tensor, counted: Tensor) -> Tensor:
    """log(p / (1 - p)) of the tokens (B, L) that are `counted`, each by the logits of the one before."""
    places = counted[:, 1:].to(logits.device)
    chances = logits[:, :-1][places].float().log_softmax(dim=-1)
    log_p = chances.gather(1, ids[:, 1:][places].unsqueeze(1)).squeeze(1).clamp(max=-1e-5)
    return (log_p - torch.log(-torch.expm1(log_p))).clamp(-_LARGEST_MARGIN, _LARGEST_MARGIN)


def _counted(valid: Tensor, asked: Sequence[int]) -> Tensor:
    """Which tokens (B, L) are part of an answer."""
    return valid & (torch.arange(valid.shape[1]) >= torch.tensor(asked).unsqueeze(1))


class _Listener:
    """Answers with the exact attention; an added zero in each layer gathers the gradient of its output."""

    def __init__(self, cache: PromptCache, valid: Tensor):
        self.cache, self.valid = cache, valid
        self.layers: dict[str, _HeardLayer] = {}
        self.nudges: dict[str, Tensor] = {}

    def __call__(self, call: AttentionCall) -> Tensor:
        keys, values = self.cache.layers[call.layer]
        part: Any = checkpoint(prompt_part, call, keys, values, use_reentrant=False)
        beside = self.cache.beside(call)
        output = merged(beside, part)[0].to(call.q.dtype)
        nudge = self.nudges[call.layer] = torch.zeros_like(output, requires_grad=True)
        total = torch.logaddexp(beside[1], part[1]).detach()
        alone = call._replace(q=call.q.detach(), k=call.k.detach(), v=call.v.detach())
        self.layers[call.layer] = _HeardLayer(
            LayerProblem(alone, self.valid, keys, values, output.detach(), total)
        )
        return output + nudge


@dataclass
class _HeardLayer:
    """The queries of a layer with output and logsumexp over all they see, and the output's gradient."""

    layer: LayerProblem
    gradient: Tensor | None = None

    @property
    def attention(self) -> Tensor:
        """(Hkv, query heads of each, positions, m): what each query pays to each token of the prompt."""
        layer, rows = self.layer, self.layer.rows
        scores = layer.call.scores(rows(layer.call.q), layer.keys) - rows(layer.lse.unsqueeze(-1))
        return scores.exp().float().unflatten(1, (-1, int(layer.valid.sum())))

    def effects(self) -> Tensor:
        """In the shape of `attention`: how much the margins move, to first order, without a token."""
        assert self.gradient is not None
        attention = self.attention
        gradient, output = self.layer.rows(self.gradient), self.layer.rows(self.layer.output)
        alone = gradient @ self.layer.values.mT - (gradient * output).sum(dim=-1, keepdim=True)
        return (attention * alone.unflatten(1, attention.shape[1:3])).abs()
