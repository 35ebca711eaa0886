"""States in closed form, layer after layer: each is fitted to what the earlier, compressed ones give it.

One pass of the calibration text through the model does it all: where a layer's attention is called, its state
is fitted to the exact attention with the prompt, and the state's own output goes on to the next layer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attangent.attention import PrefixState, merge_prefix
from attangent.attention.features import Anchors, Elu
from attangent.compression.capture import Call, PromptCache, run
from attangent.compression.text import SINKS, Calibration

_MASS_RIDGE = 1e-4
_VALUE_RIDGE = 1e-2
_PICK_RIDGE = 1e-3
_PICKED_ON = 1024
_SMALLEST_MASS = 1e-8
_ROWS = 1 << 25


@dataclass(frozen=True)
class Problem:
    """What the state of one KV head has to reproduce; rows are queries of calibration text.

    weights (n, m): the attention each query pays to each token of the prompt, among all it sees;
    rest (n): what it pays to the text; beside (n, dv): the output of the text alone;
    output (n, dv) = weights values + rest beside; keys and values (m, d) of the prompt.
    """

    weights: Tensor
    rest: Tensor
    beside: Tensor
    output: Tensor
    keys: Tensor
    values: Tensor

    @property
    def share(self) -> Tensor:
        return self.weights.sum(dim=1)


Solution = tuple[Tensor, Tensor, Tensor]
"""Keys (r, d), masses (r) and values (r, dv) of virtual tokens."""
Method = Callable[[Problem, int], Solution]


def fit_states(
    model: Any,
    cache: PromptCache,
    calibration: Calibration,
    size: int,
    method: str = "anchors",
    told: Callable[[str], Any] = lambda layer: None,
) -> dict[str, PrefixState]:
    """A state of `size` virtual tokens for each layer and KV head, fitted on the calibration text."""
    fitter = _Fitter(cache, calibration.valid, size, method, told)
    with torch.no_grad():
        run(model, calibration.ids, cache.length, fitter, logits_to_keep=1)
    return fitter.states


@dataclass
class _Fitter:
    """Answers each layer's call with the output of the state it has just fitted there."""

    cache: PromptCache
    valid: Tensor
    size: int
    method: str
    told: Callable[[str], Any]
    states: dict[str, PrefixState] = field(default_factory=dict)

    def __call__(self, call: Call) -> Tensor:
        prompt = self.cache.layers[call.layer]
        state, output = fit_layer(call, self.valid, *prompt, self.size, self.method)
        self.states[call.layer] = state
        self.told(call.layer)
        return output


def fit_layer(
    call: Call, valid: Tensor, keys: Tensor, values: Tensor, size: int, method: str = "anchors"
) -> tuple[PrefixState, Tensor]:
    """The state of one layer for a prompt of keys and values (Hkv, m, d), and attention's output with it.

    `valid` (B, L) tells which of the call's queries count.
    """
    output, lse = call.tokens()
    if method == "elu":
        state = _elu_state(call, valid, keys, values, lse)
    else:
        problems = _problems(call, valid, keys, values, output, lse)
        state = _state([METHODS[method](problem, size) for problem in problems], call.softcap)
    return state, merge_prefix(call.q, output, lse, state, call.scale).to(call.q.dtype)


def _problems(call: Call, valid: Tensor, keys: Tensor, values: Tensor, output: Tensor, lse: Tensor) -> Any:
    """The problem of each KV head in turn; only one exists at a time."""
    heads = len(keys)
    rows = [_rows(tensor, heads, valid) for tensor in (call.q, output, lse.unsqueeze(-1))]
    for q, beside, token_lse, k, v in zip(*rows, keys.float(), values.float(), strict=True):
        kept = _at_most(len(q), len(k))
        logits = call.scores(q[kept].float(), k)
        total = torch.logaddexp(logits.logsumexp(dim=1), token_lse[kept, 0].float())
        weights = logits.sub_(total.unsqueeze(1)).exp_()
        rest = (token_lse[kept, 0] - total).exp()
        near = beside[kept].float()
        yield Problem(weights, rest, near, weights @ v + rest.unsqueeze(1) * near, k, v)


def _rows(x: Tensor, kv_heads: int, valid: Tensor) -> Tensor:
    """(B, H, L, c) as (kv_heads, n, c): the valid positions of all query heads that share a KV head."""
    batch, heads, length, columns = x.shape
    grouped = x.reshape(batch, kv_heads, heads // kv_heads, length, columns).permute(1, 2, 0, 3, 4)
    return grouped[:, :, valid].reshape(kv_heads, -1, columns)


def _at_most(rows: int, columns: int) -> slice:
    """Every s-th row, so that rows x columns stays within memory."""
    return slice(None, None, max(1, -(-rows * columns // _ROWS)))


def _state(solved: list[Solution], softcap: float | None) -> PrefixState:
    keys, masses, values = (torch.stack(parts) for parts in zip(*solved, strict=True))
    return PrefixState(Anchors(keys, softcap), values * masses.unsqueeze(-1), masses)


def fit_anchors(problem: Problem, size: int) -> Solution:
    """Tokens of the prompt with new masses and values: the closed form that beats every rival tried.

    Masses solve sum_j w_j k_j = share over k >= 0; with them fixed the output is linear in the values, which
    are found by ridge regression about the prompt's own. w_j is a query's attention to token j.
    """
    chosen = pick(problem, size)
    weights = problem.weights[:, chosen]
    masses = non_negative(weights, problem.share, _MASS_RIDGE).clamp(min=_SMALLEST_MASS)
    return problem.keys[chosen], masses, fitted_values(problem, weights, masses, problem.values[chosen])


def fit_selected(problem: Problem, size: int) -> Solution:
    """The rival that keeps the first and the most attended tokens as they are (KV selection)."""
    chosen = most_attended(problem, size)
    return problem.keys[chosen], torch.ones_like(problem.keys[chosen, 0]), problem.values[chosen]


def fit_merged(problem: Problem, size: int) -> Solution:
    """The rival that merges every token into the nearest of the most attended ones: means, and counts."""
    chosen = most_attended(problem, size)
    nearest = torch.cdist(problem.keys, problem.keys[chosen]).argmin(dim=1)
    belongs = torch.nn.functional.one_hot(nearest, len(chosen)).float()
    counts = belongs.sum(dim=0).clamp(min=1)
    return (
        belongs.mT @ problem.keys / counts.unsqueeze(1),
        counts,
        belongs.mT @ problem.values / counts.unsqueeze(1),
    )


METHODS: Mapping[str, Method] = {"anchors": fit_anchors, "select": fit_selected, "merge": fit_merged}


def most_attended(problem: Problem, size: int) -> Tensor:
    """The first tokens of the prompt and those that draw most attention, in order."""
    scores = problem.weights.sum(dim=0)
    scores[:SINKS] = torch.inf
    return scores.topk(size).indices.sort().values


def pick(problem: Problem, size: int) -> Tensor:
    """Tokens chosen one after another, each for what the ones before leave unexplained, in order.

    Explained is, by least squares on the attention to the chosen tokens, what the whole prompt gives each
    query: its mass and its output. The next token is the one that explains most of the rest: orthogonal least
    squares, by a pivoted Cholesky factor of the tokens' Gram matrix, which never exists as a whole. The
    first tokens come first. `_PICKED_ON` queries decide.
    """
    rows = slice(None, None, max(1, len(problem.weights) // _PICKED_ON))
    weights = problem.weights[rows].mT.contiguous()  # (m, n)
    left, told = weights.square().sum(dim=1), weights @ _given(problem)[rows]
    ridge = _PICK_RIDGE * left.mean()
    factor, chosen = weights.new_zeros(len(weights), size), torch.zeros(size, dtype=torch.long)
    for step in range(size):
        scores = told.square().sum(dim=1) / (left.clamp(min=0) + ridge)
        scores[chosen[:step]] = -torch.inf
        best = step if step < SINKS else int(scores.argmax())
        column = weights @ weights[best] - factor[:, :step] @ factor[best, :step]
        column /= (column[best].clamp(min=0) + ridge).sqrt()
        told.addr_(column, told[best].clone() / (left[best].clamp(min=0) + ridge).sqrt(), alpha=-1)
        left -= column.square()
        factor[:, step], chosen[step] = column, best
    return chosen.sort().values


def _given(problem: Problem) -> Tensor:
    """What the prompt gives each query, (n, 1 + dv): its mass, and its output in units that weigh as much."""
    output = problem.output - problem.rest.unsqueeze(1) * problem.beside
    unit = problem.values.std(unbiased=False).clamp(min=1e-6) * problem.values.shape[1] ** 0.5
    return torch.cat([problem.share.unsqueeze(1), output / unit], dim=1)


def non_negative(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """argmin |A x - b|^2/n + ridge |x|^2 over x >= 0, columns of A scaled to unit mean square."""
    from scipy.optimize import nnls

    A = design.double().cpu()
    n, r = A.shape
    norms = A.square().mean(dim=0).sqrt().clamp(min=torch.finfo(A.dtype).tiny)
    A = A / norms
    gram = A.mT @ A / n + ridge * torch.eye(r, dtype=A.dtype)
    factor = torch.linalg.cholesky(gram)
    right = torch.linalg.solve_triangular(
        factor, (A.mT @ target.double().cpu() / n).unsqueeze(1), upper=False
    )
    solved = nnls(factor.mT.contiguous().numpy(), right.squeeze(1).numpy(), maxiter=10 * r)[0]
    return (torch.from_numpy(solved) / norms).float().to(design.device)


def fitted_values(problem: Problem, weights: Tensor, masses: Tensor, start: Tensor) -> Tensor:
    """The values about `start` with which tokens of these masses give the output best."""
    part = weights * masses
    total = (part.sum(dim=1) + problem.rest).unsqueeze(1)
    target = problem.output - problem.rest.unsqueeze(1) / total * problem.beside
    design = (part / total).double()
    gram = design.mT @ design
    gram.diagonal().add_(_VALUE_RIDGE * gram.diagonal().mean())
    change = torch.linalg.solve(gram, design.mT @ (target.double() - design @ start.double()))
    return start + change.float()


def _elu_state(call: Call, valid: Tensor, keys: Tensor, values: Tensor, lse: Tensor) -> PrefixState:
    """The rival with the authors' map: least squares with positive masses; features as many as the head."""
    heads = len(keys)
    queries = _rows(call.q, heads, valid)
    tokens = _rows(lse.unsqueeze(-1), heads, valid).squeeze(-1)
    kept = _at_most(queries.shape[1], keys.shape[1])
    return PrefixState.fit(
        Elu(keys.shape[-1]),
        keys.float(),
        values.float(),
        queries[:, kept].float(),
        token_logsumexp=tokens[:, kept],
        scale=call.scale,
    )
