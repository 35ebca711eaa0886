"""The state closest to a prefix on sample queries, by weighted least squares."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention.backends.torch.portable import attend_in_chunks
from attangent.attention.features.base import FeatureMap
from attangent.attention.prefix import query_gain
from attangent.attention.shapes import StateMass, StateZ

# A signed map's phi(q) k must exceed this fraction of the true mass on every sample query.
_LEAST_SHARE = 0.1
_ROUNDS = 30
_FULL_EXCHANGES = 3
_PIVOT_ROUNDS = 100


def fit_weights(
    features: FeatureMap,
    keys: Float[Tensor, "heads tokens dim"],
    values: Float[Tensor, "heads tokens value_dim"],
    queries: Float[Tensor, "heads samples dim"],
    token_lse: Tensor | None,
    ridge: float,
    scale: float,
) -> tuple[StateZ, StateMass]:
    """Return the Z and k that `PrefixState.fit` describes, in float64."""
    Q = queries.double()
    output, lse = attend_in_chunks(Q, keys.double(), values.double(), scale)
    token_lse = torch.full_like(lse, -torch.inf) if token_lse is None else token_lse.double()
    if token_lse.shape != lse.shape:
        raise AttangentError(
            f"token_logsumexp has shape {tuple(token_lse.shape)}, "
            f"expected (heads, queries) = {tuple(lse.shape)}"
        )
    total = torch.logaddexp(lse, token_lse)
    share = (lse - total).exp()
    w, shift = features.evaluate(Q * query_gain(scale, Q.shape[-1]), None)
    log_weight = -total.unsqueeze(-1) if shift is None else shift - total.unsqueeze(-1)
    design = w * log_weight.exp()
    # all features share one ridge, so they must be of one size
    norms = design.square().mean(dim=1, keepdim=True).sqrt().clamp(min=torch.finfo(design.dtype).tiny)
    design = design / norms
    solve_masses = non_negative_solution if features.positive else _positive_mass_solution
    Z = ridge_solution(design, share.unsqueeze(-1) * output, ridge) / norms.mT
    k = torch.stack([solve_masses(A, b, ridge) for A, b in zip(design, share, strict=True)]) / norms[:, 0]
    return Z, k


def _positive_mass_solution(
    design: Float[Tensor, "samples size"], target: Float[Tensor, " samples"], ridge: float
) -> Float[Tensor, " size"]:
    """Solve by ridge regression, doubling the weight of samples whose fitted mass is too small."""
    weight = torch.ones_like(target)
    for _ in range(_ROUNDS):
        x = ridge_solution(design * weight.unsqueeze(-1), (target * weight).unsqueeze(-1), ridge).squeeze(-1)
        low = design @ x < _LEAST_SHARE * target
        if not low.any():
            return x
        weight = torch.where(low, 2 * weight, weight)
    raise AttangentError(
        f"no masses keep phi(q) k above {_LEAST_SHARE:g} of the prefix's mass on all {len(target)} queries: "
        "use a positive feature map (Elu, Anchors, PositiveRandom), a higher order or a smaller ridge"
    )


def ridge_solution(
    design: Float[Tensor, "*heads n r"], target: Float[Tensor, "*heads n c"], ridge: float
) -> Float[Tensor, "*heads r c"]:
    """Return argmin |A x - b|^2/n + ridge |x|^2 for A (..., n, r) and b (..., n, c)."""
    n, r = design.shape[-2:]
    gram = design.mT @ design / n + ridge * torch.eye(r, dtype=design.dtype)
    return torch.linalg.solve(gram, design.mT @ target / n)


def non_negative_solution(
    design: Float[Tensor, "n r"], target: Float[Tensor, " n"], ridge: float
) -> Float[Tensor, " r"]:
    """Return argmin |A x - b|^2/n + ridge |x|^2 over x >= 0 for A (n, r) and b (n), in float64.

    The columns of A should be of similar size: they share one ridge.
    """
    n, r = design.shape
    gram = design.mT @ design / n + ridge * torch.eye(r, dtype=design.dtype)
    return non_negative_minimum(gram, design.mT @ target / n)


def non_negative_minimum(gram: Float[Tensor, "r r"], right: Float[Tensor, " r"]) -> Float[Tensor, " r"]:
    """Return argmin x' G x/2 - c' x over x >= 0 for a positive definite G (r, r) and c (r), in float64."""
    solution = _pivoted(gram, right)
    return _active_set(gram, right) if solution is None else solution


def _pivoted(gram: Tensor, right: Tensor) -> Tensor | None:
    """Minimise by block principal pivoting (Kim and Park, 2011); None if it cycles.

    Entries are free or zero. All entries on the wrong side switch together, so that a few solves suffice.
    """
    free = torch.ones_like(right, dtype=torch.bool)
    fewest = len(right) + 1
    left = _FULL_EXCHANGES
    for _ in range(_PIVOT_ROUNDS):
        x = _free_solution(gram, right, free)
        slope = gram @ x - right
        small = 1e-12 * right.abs().max()
        wrong = (free & (x < 0)) | (~free & (slope < -small))
        count = int(wrong.sum())
        if count == 0:
            return x
        if count < fewest:
            fewest = count
            left = _FULL_EXCHANGES
        elif left > 0:
            left -= 1
        else:
            # no progress: switching only the last wrong entry (Murty's rule) cannot cycle
            wrong = torch.arange(len(right)) == wrong.nonzero()[-1]
        free = free ^ wrong
    return None


def _free_solution(gram: Tensor, right: Tensor, free: Bool[Tensor, " r"]) -> Tensor:
    """Solve for the free entries; the others are 0."""
    x = torch.zeros_like(right)
    if free.any():
        factor = torch.linalg.cholesky(gram[free][:, free])
        x[free] = torch.cholesky_solve(right[free].unsqueeze(1), factor).squeeze(1)
    return x


def _active_set(gram: Tensor, right: Tensor) -> Tensor:
    """Minimise with scipy, which frees one entry at a time: with G = L L' it is |L' x - L^-1 c|^2."""
    from scipy.optimize import nnls

    factor = torch.linalg.cholesky(gram)
    rows = torch.linalg.solve_triangular(factor, right.unsqueeze(1), upper=False)
    most = 10 * len(right)
    return torch.from_numpy(nnls(factor.mT.contiguous().numpy(), rows[:, 0].numpy(), maxiter=most)[0])
