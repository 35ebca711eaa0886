"""The fit of one KV head: attention that a prompt gets, and the virtual tokens that reproduce it.

The closed form solves for masses, then for values. Refinement moves keys, masses and values together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, islice

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attangent._core.random import generator
from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.attention.fit import non_negative_minimum
from attangent.compression.prompt_cache import PromptState, attention_by_head

_MASS_RIDGE = 1e-4
_SMALLEST_MASS = 1e-8
_VALUE_RIDGE = 1e-2
# Maximum number of logits of a head's queries on the prompt.
LOGITS = 1 << 25
_REFINING_STEPS = 100
_REFINING_RATE = 0.03
_REFINED_ON = 512
# Squared error, relative to the output's square, below which a solution is not refined.
_NEARLY_EXACT = 1e-3
_SMALLEST_PART = 1e-4

# Keys (r, d), masses (r) and values (r, dv) of virtual tokens.
Solution = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class HeadProblem:
    """Attention that the virtual tokens of one KV head must reproduce; rows are queries of calibration text.

    output = weights values + rest rest_output, with share + rest = 1.

    Attributes:
        share: Attention (n) of each query to the prompt, among all that it sees.
        rest: Attention (n) to everything else.
        rest_output: Output (n, dv) of everything else alone.
        output: Output (n, dv) of attention with the whole prompt.
        keys: Keys (m, d) of the prompt.
        values: Values (m, dv) of the prompt.
        queries: Queries (n, d) times the scale: their products with keys are logits before a softcap.
        total: Logsumexp (n) of all logits that a query sees.
        softcap: Bound of the logits, if the model has one.
    """

    share: Float[Tensor, " n"]
    rest: Float[Tensor, " n"]
    rest_output: Float[Tensor, "n dv"]
    output: Float[Tensor, "n dv"]
    keys: Float[Tensor, "m d"]
    values: Float[Tensor, "m dv"]
    queries: Float[Tensor, "n d"]
    total: Float[Tensor, " n"]
    softcap: float | None = None

    @cached_property
    def weights(self) -> Float[Tensor, "n m"]:
        """Return the attention of each query to each token of the prompt; large, computed on demand."""
        return self.attention_to(self.keys)

    def attention_to(self, keys: Float[Tensor, "r d"]) -> Float[Tensor, "n r"]:
        """Return exp(logit - total): the attention to these keys, relative to all that a query sees now."""
        return self.logits_on(keys).sub_(self.total.unsqueeze(1)).exp_()

    def logits_on(self, keys: Float[Tensor, "r d"]) -> Float[Tensor, "n r"]:
        """Return the logits of the queries on these keys."""
        raw = self.queries @ keys.mT
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)

    def thinned(self, rows: int) -> "HeadProblem":
        """Return the problem on at most `rows` queries, drawn at random."""
        return self.some(drawn_rows(len(self.rest), rows))

    def some(self, rows: Tensor | slice) -> "HeadProblem":
        """Return the problem on some of the queries."""
        names = ("share", "rest", "rest_output", "output", "queries", "total")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})


@dataclass(frozen=True)
class LayerProblem:
    """The problems of all KV heads of a layer.

    Attributes:
        call: The layer's attention call on the calibration text.
        valid: Which queries (B, L) count.
        keys: Keys (Hkv, m, d) of the prompt.
        values: Values (Hkv, m, dv) of the prompt.
        output: Output of attention without the prompt.
        lse: Logsumexp of attention without the prompt.
    """

    call: AttentionCall
    valid: Bool[Tensor, "batch length"]
    keys: Float[Tensor, "kv_heads m d"]
    values: Float[Tensor, "kv_heads m dv"]
    output: Float[Tensor, "batch heads length dv"]
    lse: Float[Tensor, "batch heads length"]

    def rows(self, x: Float[Tensor, "batch heads length c"]) -> Float[Tensor, "kv_heads n c"]:
        """Collect the valid positions of all query heads that share a KV head."""
        batch, heads, length, columns = x.shape
        kv_heads = len(self.keys)
        grouped = x.reshape(batch, kv_heads, heads // kv_heads, length, columns).permute(1, 2, 0, 3, 4)
        return grouped[:, :, self.valid].reshape(kv_heads, -1, columns)

    def heads(self) -> Iterator[HeadProblem]:
        """Yield the problem of each KV head; only one is in memory at a time."""
        rows = [self.rows(x) for x in (self.call.q, self.output, self.lse.unsqueeze(-1))]
        for q, rest_output, rest_lse, keys, values in zip(*rows, self.keys, self.values, strict=True):
            taken = drawn_rows(len(q), max(1, LOGITS // len(keys)))
            queries = q[taken].float()
            rest_total = rest_lse[taken, 0].float()
            outer = rest_output[taken].float()
            k = keys.float()
            v = values.float()
            alone = attention_by_head(self.call, queries[None], k[None], v[None])
            prompt_output, lse = (part[0] for part in alone)
            total = torch.logaddexp(lse, rest_total)
            share = (lse - total).exp()
            rest = (rest_total - total).exp()
            output = share.unsqueeze(1) * prompt_output + rest.unsqueeze(1) * outer
            scaled = queries * self.call.scale
            yield HeadProblem(share, rest, outer, output, k, v, scaled, total, self.call.softcap)

    def state(self, solutions: Sequence[Solution]) -> PromptState:
        """Return the virtual tokens of each KV head as a state, ragged if the heads differ in size."""
        keys, masses, values = (list(parts) for parts in zip(*solutions, strict=True))
        if len({len(head) for head in masses}) > 1:
            return RaggedState.of(keys, values, masses, self.call.softcap)
        k = torch.stack(masses)
        Z = torch.stack(values) * k.unsqueeze(-1)
        return PrefixState(Anchors(torch.stack(keys), self.call.softcap), Z, k)


def drawn_rows(rows: int, at_most: int) -> Tensor | slice:
    """Select all rows, or `at_most` of them at random.

    Every s-th row would be the same positions in each head of a group, and the others in none.
    """
    if rows <= at_most:
        return slice(None)
    return torch.randperm(rows, generator=generator(0, "drawn rows"))[:at_most].sort().values


def refitted(problem: HeadProblem, chosen: Tensor) -> Solution:
    """Give the chosen tokens of the prompt new masses and values in closed form.

    Masses solve sum_j w_j k_j = share over k >= 0, where w_j is a query's attention to token j. With the
    masses fixed the output is linear in the values: ridge regression around the prompt's values.
    """
    weights = problem.attention_to(problem.keys[chosen])
    masses = fitted_masses(weights, problem.share, _MASS_RIDGE).clamp(min=_SMALLEST_MASS)
    values = fitted_values(problem, weights, masses, problem.values[chosen])
    return problem.keys[chosen], masses, values


def fitted_masses(
    design: Float[Tensor, "n r"], target: Float[Tensor, " n"], ridge: float
) -> Float[Tensor, " r"]:
    """Solve argmin |A x - b|^2 / n + ridge |x|^2 over x >= 0, columns of A scaled to unit mean square."""
    # Unscaled, the ridge would act on rarely attended tokens alone.
    norms = design.square().mean(dim=0).sqrt().clamp(min=torch.finfo(design.dtype).tiny)
    A = design / norms
    # Products over the rows are in float32, whose error is far below the ridge; the solve is in float64.
    gram, right = ((A.mT @ b / len(A)).double().cpu() for b in (A, target))
    gram.diagonal().add_(ridge)
    return (non_negative_minimum(gram, right).to(norms) / norms).float()


def fitted_values(
    problem: HeadProblem,
    weights: Float[Tensor, "n r"],
    masses: Float[Tensor, " r"],
    start: Float[Tensor, "r dv"],
) -> Float[Tensor, "r dv"]:
    """Solve for the values, near `start`, with which tokens of these masses reproduce the output best."""
    part = weights * masses
    total = (part.sum(dim=1) + problem.rest).unsqueeze(1)
    target = problem.output - problem.rest.unsqueeze(1) / total * problem.rest_output
    design = part / total
    # As for the masses: products in float32, the solve in float64.
    gram, right = ((design.mT @ b).double() for b in (design, target - design @ start))
    gram.diagonal().add_(_VALUE_RIDGE * gram.diagonal().mean())
    return start + torch.linalg.solve(gram, right).float()


def refined(
    problem: HeadProblem, start: Solution, steps: int = _REFINING_STEPS, masses: bool = True
) -> Solution:
    """Improve keys, masses and values by steps of Adam on the squared error of the output.

    The values are solved for once more at the end. Without `masses` these stay unchanged. A solution that is
    nearly exact stays unchanged too: steps on samples of the queries do not improve it.

    Returns:
        The refined solution, or `start` if that fits better.
    """
    error = squared_error(problem, start)
    if error < _NEARLY_EXACT * problem.output.square().sum(dim=1).mean().item():
        return start
    keys, k, values = _trained(problem, start, steps, masses)
    moved = keys, k, fitted_values(problem, problem.attention_to(keys), k, values)
    # Minibatches may end above the start.
    return moved if squared_error(problem, moved) < error else start


def squared_error(problem: HeadProblem, solution: Solution) -> float:
    """Return the mean over queries of |output - target|^2."""
    keys, masses, values = solution
    part = problem.attention_to(keys) * masses
    total = part.sum(dim=1) + problem.rest
    output = (part @ values + problem.rest.unsqueeze(1) * problem.rest_output) / total.unsqueeze(1)
    return (output - problem.output).square().sum(dim=1).mean().item()


def error_gradients(
    problem: HeadProblem,
    keys: Float[Tensor, "r d"],
    log_masses: Float[Tensor, " r"],
    values: Float[Tensor, "r dv"],
) -> list[Tensor]:
    """Return the gradients of the mean squared error in keys c (r, d), log masses b (r), values u (r, dv).

    With w_ij the part of token j in what query i sees, o_i = sum_j w_ij u_j + (rest) and
    e_i = 2 (o_i - target) / n:  d/du = w' e,  d/db = column sums of s,  d/dc = s' q, where
    s_ij = w_ij e_i.(u_j - o_i). Under a softcap C, d/dc takes s_ij (1 - (logit_ij / C)^2).
    """
    logits = problem.logits_on(keys)
    parts = (logits - problem.total.unsqueeze(1)).add_(log_masses).exp_()
    total = (parts.sum(dim=1) + problem.rest).unsqueeze(1)
    parts /= total
    output = parts @ values + problem.rest.unsqueeze(1) / total * problem.rest_output
    errors = (output - problem.output) * (2 / len(output))
    slopes = (errors @ values.mT).sub_((errors * output).sum(dim=1, keepdim=True)).mul_(parts)
    of_masses = slopes.sum(dim=0)
    of_values = parts.mT @ errors
    if problem.softcap is not None:
        slopes *= 1 - (logits / problem.softcap).square()
    return [slopes.mT @ problem.queries, of_masses, of_values]


def _trained(problem: HeadProblem, start: Solution, steps: int, weighted: bool) -> Solution:
    """Run `steps` of Adam; unless tokens are `weighted`, steps of the log masses have size 0."""
    keys, masses, values = start
    # Steps are in units of the standard deviation of keys and of values: one rate then suits every head.
    units = [max(x.std(unbiased=False).item(), 1e-6) for x in (problem.keys, problem.values)]
    scales = (units[0], float(weighted), units[1])
    # A mass near 0 would need a huge step of its logarithm to matter again; raise it to a small part.
    log_masses = masses.clamp(min=_SMALLEST_PART * masses.max().item()).log()
    starts = (keys, log_masses, values)
    moves = [torch.zeros_like(x) for x in starts]
    optimizer = torch.optim.Adam(moves, lr=_REFINING_RATE, betas=(0.9, 0.95), fused=True)
    for step, batch in enumerate(islice(_batches(problem), steps)):
        optimizer.param_groups[0]["lr"] = _REFINING_RATE * (1 - step / steps)
        now = [torch.add(x, moved, alpha=unit) for x, moved, unit in zip(starts, moves, scales, strict=True)]
        # Gradients by hand: autograd takes about twice the time on matrices of this size.
        slopes = error_gradients(batch, *now)
        for moved, slope, unit in zip(moves, slopes, scales, strict=True):
            moved.grad = slope * (unit / units[1] ** 2)
        optimizer.step()
    c, b, u = moves
    return keys + units[0] * c, (log_masses + b).exp(), values + units[1] * u


def _batches(problem: HeadProblem) -> Iterator[HeadProblem]:
    """Split the queries at random into batches of about `_REFINED_ON` and cycle through them."""
    order = torch.randperm(len(problem.rest), generator=generator(0, "refined keys"))
    parts = order.to(problem.keys.device).tensor_split(max(1, round(len(order) / _REFINED_ON)))
    return cycle([problem.some(part) for part in parts])
