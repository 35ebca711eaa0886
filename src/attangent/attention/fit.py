"""The state closest to a given prefix on sample queries, by weighted least squares."""

import torch
from torch import Tensor

from attangent._core.arrays import check_shape
from attangent._core.checks import check_positive
from attangent._core.errors import AttangentError
from attangent.attention._inputs import check_prefix, check_scale
from attangent.attention.backends.portable import attend_in_chunks
from attangent.attention.features.base import FeatureMap, check_features
from attangent.attention.least_squares import non_negative_solution, ridge_solution
from attangent.attention.prefix import query_gain
from attangent.attention.state import PrefixState

_LEAST_SHARE = 0.1
"""A signed map's phi(q) k is held above this part of the true mass on every sample query."""
_ROUNDS = 30


def fit_state(
    features: FeatureMap,
    keys: Tensor,
    values: Tensor,
    queries: Tensor,
    *,
    token_logsumexp: Tensor | None = None,
    ridge: float = 1e-4,
    scale: float | None = None,
) -> PrefixState:
    """Least squares of [e^l o | e^l] on phi(q), rows weighted by 1/(e^l + e^t), for each head.

    l and o are the logsumexp and the output of the prefix keys and values (heads, m, d) at the sample queries
    (heads, n, d); t is the logsumexp of the tokens the queries see beside the prefix, `token_logsumexp`
    (heads, n), no tokens where not given. The weights make the residual the error of the merged output.
    `ridge` is relative to the mean square of each feature. Masses are non-negative for a positive map; for a
    signed one phi(q) k is held above a tenth of the true mass on every sample, or the fit is refused.
    """
    keys = check_prefix("keys", keys)
    values = check_prefix("values", values, heads=keys.shape[0])
    check_shape("values", values, len(keys), keys.shape[1], "size")
    queries = check_prefix("queries", queries, heads=keys.shape[0], columns=keys.shape[2])
    check_features(features)
    check_positive("ridge", ridge)
    with torch.no_grad():
        design, share, output = _problem(features, keys, values, queries, token_logsumexp, scale)
        norms = design.square().mean(dim=1, keepdim=True).sqrt().clamp(min=torch.finfo(design.dtype).tiny)
        design = design / norms
        solve_masses = non_negative_solution if features.positive else _held_positive
        Z = ridge_solution(design, share.unsqueeze(-1) * output, ridge) / norms.mT
        k = torch.stack([solve_masses(A, b, ridge) for A, b in zip(design, share, strict=True)]) / norms[:, 0]
    return PrefixState(features, Z.to(values.dtype), k.to(values.dtype))


def _problem(
    features: FeatureMap,
    keys: Tensor,
    values: Tensor,
    queries: Tensor,
    token_lse: Tensor | None,
    scale: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """phi(q)/(e^l + e^t) (heads, n, r), e^l/(e^l + e^t) (heads, n) and o (heads, n, dv), in float64."""
    Q, K, V = queries.double(), keys.double(), values.double()
    factor = check_scale(scale, Q.shape[-1])
    output, lse = attend_in_chunks(Q, K, V, factor)
    token_lse = torch.full_like(lse, -torch.inf) if token_lse is None else token_lse.double()
    if token_lse.shape != lse.shape:
        raise AttangentError(
            f"token_logsumexp has shape {tuple(token_lse.shape)}, "
            f"expected (heads, queries) = {tuple(lse.shape)}"
        )
    total = torch.logaddexp(lse, token_lse)
    w, shift = features.evaluate(Q * query_gain(factor, Q.shape[-1]), None)
    log_weight = -total.unsqueeze(-1) if shift is None else shift - total.unsqueeze(-1)
    return w * log_weight.exp(), (lse - total).exp(), output


def _held_positive(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """`ridge_solution` with growing weight on the samples whose fitted mass is too small."""
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
