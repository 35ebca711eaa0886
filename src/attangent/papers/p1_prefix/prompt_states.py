"""States of one layer that the claims on Appendix C compare: fitted tokens, selected, merged, and elu."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState
from attangent.attention.features import Elu
from attangent.compression.problem import LOGITS, HeadProblem, LayerProblem, Solution, drawn_rows, refitted
from attangent.compression.prompt_cache import PromptState
from attangent.compression.text import SINKS

_PICK_RIDGE = 1e-3
_PICKED_ON = 1024


def fit_layer(
    call: AttentionCall,
    valid: Bool[Tensor, "batch length"],
    keys: Float[Tensor, "kv_heads m d"],
    values: Float[Tensor, "kv_heads m dv"],
    size: int,
    method: str,
) -> PromptState:
    """Return the state of one layer for a prompt; `valid` says which of the call's queries count."""
    layer = LayerProblem(call, valid, keys, values, *call.tokens())
    if method == "elu":
        return elu_state(layer)
    return layer.state([HEAD_FITS[method](problem, size) for problem in layer.heads()])


def elu_state(layer: LayerProblem) -> PrefixState:
    """Fit the map of P1's authors by least squares with positive masses: one feature per dimension."""
    queries = layer.rows(layer.call.q)
    tokens = layer.rows(layer.lse.unsqueeze(-1)).squeeze(-1)
    keys, values = (torch.stack(list(part)).float() for part in (layer.keys, layer.values))
    taken = drawn_rows(queries.shape[1], LOGITS // keys.shape[1])
    return PrefixState.fit(
        Elu(keys.shape[-1]),
        keys,
        values,
        queries[:, taken].float(),
        token_logsumexp=tokens[:, taken],
        scale=layer.call.scale,
    )


def anchors(problem: HeadProblem, size: int) -> Solution:
    """Pick the tokens that explain most of the prompt's output, and refit their masses and values."""
    return refitted(problem, pick(problem, size))


def pick(problem: HeadProblem, size: int) -> Tensor:
    """Pick tokens one after another, each for what the previous ones leave unexplained.

    The attention to the picked tokens explains, by least squares, the prompt's mass and output at each query.
    The next token is the one that explains most of the rest: orthogonal least squares by a pivoted Cholesky
    factor of the tokens' Gram matrix, which is never formed. The first tokens come first. About `_PICKED_ON`
    queries decide.
    """
    rows = slice(None, None, max(1, len(problem.rest) // _PICKED_ON))
    weights = problem.some(rows).weights.mT.contiguous()  # (m, n)
    left = weights.square().sum(dim=1)
    unexplained = weights @ prompt_effect(problem)[rows]
    ridge = _PICK_RIDGE * left.mean()
    factor = weights.new_zeros(len(weights), size)
    chosen = torch.zeros(size, dtype=torch.long)
    for step in range(size):
        scores = unexplained.square().sum(dim=1) / (left.clamp(min=0) + ridge)
        scores[chosen[:step]] = -torch.inf
        best = step if step < SINKS else int(scores.argmax())
        column = weights @ weights[best] - factor[:, :step] @ factor[best, :step]
        column /= (column[best].clamp(min=0) + ridge).sqrt()
        removed = unexplained[best].clone() / (left[best].clamp(min=0) + ridge).sqrt()
        unexplained.addr_(column, removed, alpha=-1)
        left -= column.square()
        factor[:, step] = column
        chosen[step] = best
    return chosen.sort().values


def prompt_effect(problem: HeadProblem) -> Float[Tensor, "n columns"]:
    """Return the prompt's mass and output at each query (n, 1 + dv), in units that weigh the same."""
    output = problem.output - problem.rest.unsqueeze(1) * problem.rest_output
    unit = problem.values.std(unbiased=False).clamp(min=1e-6) * problem.values.shape[1] ** 0.5
    return torch.cat([problem.share.unsqueeze(1), output / unit], dim=1)


def select(problem: HeadProblem, size: int) -> Solution:
    """Keep the most attended tokens unchanged (KV selection)."""
    chosen = most_attended(problem, size)
    return problem.keys[chosen], torch.ones_like(problem.keys[chosen, 0]), problem.values[chosen]


def merge(problem: HeadProblem, size: int) -> Solution:
    """Merge every token into the nearest of the most attended ones, with their counts as masses."""
    chosen = most_attended(problem, size)
    nearest = torch.cdist(problem.keys, problem.keys[chosen]).argmin(dim=1)
    belongs = torch.nn.functional.one_hot(nearest, len(chosen)).float()
    counts = belongs.sum(dim=0).clamp(min=1)
    return (
        belongs.mT @ problem.keys / counts.unsqueeze(1),
        counts,
        belongs.mT @ problem.values / counts.unsqueeze(1),
    )


def most_attended(problem: HeadProblem, size: int) -> Tensor:
    """Return the first tokens of the prompt and those that get most attention, in order."""
    scores = problem.weights.sum(dim=0)
    scores[:SINKS] = torch.inf
    return scores.topk(size).indices.sort().values


HEAD_FITS: dict[str, Callable[[HeadProblem, int], Solution]] = {
    "anchors": anchors,
    "select": select,
    "merge": merge,
}
