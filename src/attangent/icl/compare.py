"""How close an in-context learner is to ridge regression, kernel ridge and nearest neighbour."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent.icl._inputs import as_tensor
from attangent.icl.dictionary import Dictionary
from attangent.icl.ridge import RidgeLimit
from attangent.icl.tasks import IN_DOMAIN, Tasks

if TYPE_CHECKING:
    from attangent.icl.attention import OneLayerAttention
    from attangent.icl.transformer import InContextTransformer

Predictor = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(prompt tokens (N, d), labels (count, N), queries (Q, d)) -> answers (count, Q)."""


@dataclass(frozen=True)
class Comparison:
    """Mean squared figures over prompts and queries, each divided by the mean square of the clean labels.

    `distance[name]` is between the predictor and the named rule; `risk[name]` between the rule and the clean
    labels, `risk["predictor"]` the predictor's own. `implied_alpha` is the ridge whose answers are nearest to
    the predictor's, and `implied_distance` how far they are.
    """

    distance: dict[str, float]
    risk: dict[str, float]
    implied_alpha: float
    implied_distance: float

    @property
    def nearest(self) -> str:
        """The rule that the predictor is nearest to."""
        return min(self.distance, key=lambda name: self.distance[name])


def compare_to_ridge(
    predictor: Predictor, dictionary: Dictionary, prompts: int = 200, tasks: Tasks = IN_DOMAIN, seed: int = 0
) -> Comparison:
    """Ask the predictor for the answers to a dictionary's queries on fresh prompts, and compare.

    >>> from attangent.icl import OneLayerAttention, predictor_of
    >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
    >>> model = OneLayerAttention(dictionary, heads=16)
    >>> training = model.fit(method="solve")
    >>> compare_to_ridge(predictor_of(model), dictionary).nearest
    'ridge'
    """
    if dictionary.K == dictionary.N:
        raise AttangentError(
            "the dictionary has no tokens beyond the prompt's: take K above N to have queries"
        )
    drawn = dictionary.prompts(check_size("prompts", prompts), tasks, seed)
    clean = drawn.clean[:, dictionary.N :]
    answers = _ask(predictor, dictionary, drawn.shown)
    rules = {name: rule(dictionary, drawn.shown) for name, rule in RULES.items()}
    scale = clean.square().mean().item()
    alpha, distance = _implied_alpha(dictionary, drawn.shown, answers)
    return Comparison(
        distance={name: _mean_square(answers - given) / scale for name, given in rules.items()},
        risk={
            name: _mean_square(given - clean) / scale
            for name, given in {"predictor": answers, **rules}.items()
        },
        implied_alpha=alpha,
        implied_distance=distance / scale,
    )


def predictor_of(model: "OneLayerAttention | InContextTransformer") -> Predictor:
    """Our own models as predictors. One-layer attention knows its own dictionary's queries only."""
    from attangent.icl.transformer import InContextTransformer

    if isinstance(model, InContextTransformer):
        return lambda tokens, labels, queries: _without_gradient(model, tokens, labels, queries)
    return lambda tokens, labels, queries: _own_queries(model, labels, queries)


def _without_gradient(
    model: "InContextTransformer", tokens: Tensor, labels: Tensor, queries: Tensor
) -> Tensor:
    like = next(model.parameters())
    with torch.no_grad():
        return model(tokens.to(like), labels.to(like), queries.to(like))[:, len(tokens) :]


def _own_queries(model: "OneLayerAttention", labels: Tensor, queries: Tensor) -> Tensor:
    known = model.dictionary.tokens[model.dictionary.N :]
    if not torch.equal(queries, known):
        raise AttangentError(
            "one-layer attention has a weight for each token of its dictionary and cannot answer other "
            "queries: compare it on its own dictionary"
        )
    return model.predict(labels)[:, model.dictionary.N :]


def _ask(predictor: Predictor, dictionary: Dictionary, labels: Tensor) -> Tensor:
    tokens = dictionary.tokens
    answers = as_tensor("answers", predictor(tokens[: dictionary.N], labels, tokens[dictionary.N :]))
    wanted = (len(labels), dictionary.K - dictionary.N)
    if answers.shape != wanted:
        raise AttangentError(
            f"the predictor gave answers of shape {tuple(answers.shape)}, expected {wanted}: "
            "a row for each prompt, a column for each query"
        )
    return answers


def ridge(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Ridge regression on the representations with the ridge m tau."""
    return RidgeLimit(dictionary).predict(labels)[:, dictionary.N :]


def kernel_ridge(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """Kernel ridge on the tokens: exp(-|v - v'|^2 / median), ridge m tau relative to the labels' variance."""
    tokens = dictionary.tokens
    squares = torch.cdist(tokens[: dictionary.N], tokens).square()
    kernel = torch.exp(-squares / squares[squares > 0].median())
    noise = dictionary.ridge / dictionary.Z.square().sum(dim=0).mean()
    shown = kernel[:, : dictionary.N] + noise * torch.eye(dictionary.N, dtype=torch.float64)
    return labels @ torch.linalg.lstsq(shown, kernel[:, dictionary.N :]).solution


def nearest_neighbour(dictionary: Dictionary, labels: Tensor) -> Tensor:
    """The label of the prompt's token nearest to the query."""
    tokens = dictionary.tokens
    return labels[:, torch.cdist(tokens[dictionary.N :], tokens[: dictionary.N]).argmin(dim=1)]


RULES = {"ridge": ridge, "kernel ridge": kernel_ridge, "nearest neighbour": nearest_neighbour}


def _implied_alpha(dictionary: Dictionary, labels: Tensor, answers: Tensor) -> tuple[float, float]:
    """The ridge nearest to the answers, by golden section in its logarithm over thirteen decades."""
    from scipy.optimize import minimize_scalar

    scale = dictionary.Z.square().sum().item()

    def distance(log10: float) -> float:
        limit = RidgeLimit(dictionary, alpha=scale * 10**log10)
        return _mean_square(limit.predict(labels)[:, dictionary.N :] - answers)

    grid = torch.linspace(-10, 3, 53).tolist()
    start = min(grid, key=distance)
    found = minimize_scalar(
        distance, bounds=(start - 0.25, start + 0.25), method="bounded", options={"xatol": 1e-9}
    )
    return float(scale * 10**found.x), float(found.fun)


def _mean_square(x: Tensor) -> float:
    value = x.square().mean().item()
    return value if math.isfinite(value) else math.inf
