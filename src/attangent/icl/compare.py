"""How close an in-context learner is to ridge regression and to other rules, and how surely."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch
from torch import Tensor

from attangent._core.checks import check_positive, check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator
from attangent.icl._inputs import as_tensor
from attangent.icl.dictionary import Dictionary
from attangent.icl.ridge import RidgeLimit
from attangent.icl.rules import RULES
from attangent.icl.tasks import IN_DOMAIN, Tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
    from attangent.papers.p4_in_context.transformer import InContextTransformer

Predictor = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(prompt tokens (N, d), labels (count, N), queries (Q, d)) -> answers (count, Q)."""


NONE = "none of these"
_RESAMPLED = 1000


class RepresentationWarning(UserWarning):
    """The predictor cannot know the representations: no rule on them can be what it does."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mean squared figures over prompts and queries, each divided by the mean square of the clean labels.

    `distance[name]` is between the predictor and the named rule, `interval[name]` holds it in 95 % of prompts
    drawn anew (by resampling prompts); `risk[name]` is between the rule and the clean labels,
    `risk["predictor"]` the predictor's own. `implied_alpha` is the ridge whose answers are nearest to the
    predictor's, and `implied_distance` how far they are. `answers` has what each of them said.
    """

    distance: dict[str, float]
    interval: dict[str, tuple[float, float]]
    risk: dict[str, float]
    implied_alpha: float
    implied_distance: float
    nearest: str
    """The rule nearest to the predictor, or "none of these" where every rule is further than `most`."""
    certainty: float
    """The share of resampled sets of prompts in which the nearest rule is the same."""
    most: float
    answers: dict[str, Tensor] = field(repr=False, default_factory=dict)

    @property
    def table(self) -> pd.DataFrame:
        """One row per rule, nearest first: rule, distance, low, high, risk."""
        rows = [
            {"rule": name, "distance": far, "low": low, "high": high, "risk": self.risk[name]}
            for (name, far), (low, high) in zip(self.distance.items(), self.interval.values(), strict=True)
        ]
        return pd.DataFrame(rows).sort_values("distance", ignore_index=True)

    def __repr__(self) -> str:
        return brief(self, nearest=self.nearest, certainty=self.certainty, implied_alpha=self.implied_alpha)

    def _repr_html_(self) -> str:
        table = self.table
        notes = [
            f"certainty {self.certainty:.0%}; rules further than {self.most:g} are not what it does",
            f"nearest ridge: alpha {self.implied_alpha:.4g}, at a distance of {self.implied_distance:.3g}",
        ]
        title = f"What the predictor does: {self.nearest}"
        return table_html(title, [*map(str, table.columns)], map(tuple, table.to_numpy()), notes)

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """The predictor's answers against those of the six nearest rules, one panel for each."""
        from attangent.icl.plots import plot_comparison

        return plot_comparison(self, path)


def compare_to_ridge(
    predictor: Predictor,
    dictionary: Dictionary,
    prompts: int = 200,
    tasks: Tasks = IN_DOMAIN,
    seed: int = 0,
    *,
    rules: Iterable[str] | None = None,
    most: float = 0.1,
) -> Comparison:
    """Ask the predictor for the answers to a dictionary's queries on fresh prompts, and compare.

    rules: names out of `attangent.icl.rules.RULES`, all but the slow trees unless given; most: a rule further
    than this (as a share of the mean square of the clean labels) is not what the predictor does.

    >>> from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
    >>> from attangent.icl import predictor_of
    >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
    >>> model = OneLayerAttention(dictionary, heads=16)
    >>> training = model.fit(method="solve")
    >>> compare_to_ridge(predictor_of(model), dictionary).nearest
    'ridge'
    """
    chosen = _chosen(rules)
    check_positive("most", most)
    _check_answerable(predictor, dictionary)
    check_memory("resampled prompts", prompts=check_size("prompts", prompts), times=_RESAMPLED)
    drawn = dictionary.prompts(prompts, tasks, seed)
    said = {"predictor": _ask(predictor, dictionary, drawn.shown)}
    said |= {name: RULES[name](dictionary, drawn.shown) for name in chosen}
    clean = drawn.clean[:, dictionary.N :]
    scale = clean.square().mean().item()
    apart = torch.stack([(said["predictor"] - said[name]).square().mean(dim=1) for name in chosen]) / scale
    alpha, distance = _implied_alpha(dictionary, drawn.shown, said["predictor"])
    nearest, certainty = _nearest(apart, chosen, most, seed)
    return Comparison(
        distance=dict(zip(chosen, map(_finite, apart.mean(dim=1).tolist()), strict=True)),
        interval=_intervals(apart, chosen, seed),
        risk={name: _mean_square(given - clean) / scale for name, given in said.items()},
        implied_alpha=alpha,
        implied_distance=distance / scale,
        nearest=nearest,
        certainty=certainty,
        most=most,
        answers=said,
    )


def _check_answerable(predictor: Predictor, dictionary: Dictionary) -> None:
    """Refuse a dictionary without queries; warn where the tokens do not tell the representations."""
    if dictionary.K == dictionary.N:
        raise AttangentError(
            "the dictionary has no tokens beyond the prompt's: take K above N to have queries"
        )
    if dictionary.apart and not isinstance(predictor, OwnPredictor):
        warnings.warn(
            "the dictionary's representations were drawn apart from its tokens, so that a learner which sees "
            "tokens cannot do ridge regression on them: leave out representation=, or give your own",
            RepresentationWarning,
            stacklevel=3,
        )


def _chosen(rules: Iterable[str] | None) -> tuple[str, ...]:
    names = tuple(rules) if rules is not None else tuple(name for name in RULES if name != "trees")
    unknown = [name for name in names if name not in RULES]
    if unknown or not names or len(set(names)) < len(names):
        raise AttangentError(f"rules are {names}, expected different names out of {', '.join(RULES)}")
    return names


def _resampled(apart: Tensor, seed: int, times: int = _RESAMPLED) -> Tensor:
    """(times, rules): mean distances over prompts drawn from the prompts with replacement."""
    count = apart.shape[1]
    rows = torch.randint(count, (times, count), generator=generator(seed, "icl comparison"))
    shares = torch.zeros(times, count, dtype=torch.float64)
    shares.scatter_add_(1, rows, torch.full((times, count), 1 / count, dtype=torch.float64))
    return shares @ apart.T


def _intervals(apart: Tensor, names: tuple[str, ...], seed: int) -> dict[str, tuple[float, float]]:
    ends = _resampled(apart, seed).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64), dim=0)
    pairs = zip(names, ends.T.tolist(), strict=True)
    return {name: (_finite(low), _finite(high)) for name, (low, high) in pairs}


def _nearest(apart: Tensor, names: tuple[str, ...], most: float, seed: int) -> tuple[str, float]:
    """The nearest rule, or none, and in how many resampled sets of prompts it is the same."""
    least, places = torch.cat([apart.mean(dim=1)[None], _resampled(apart, seed)]).min(dim=1)
    pairs = zip(least.tolist(), places.tolist(), strict=True)
    winners = [names[place] if far <= most else NONE for far, place in pairs]
    return winners[0], winners[1:].count(winners[0]) / (len(winners) - 1)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf


@dataclass(frozen=True)
class OwnPredictor:
    """A model of ours that was trained on a dictionary, and so may know its representations."""

    answer: Predictor

    def __call__(self, tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        return self.answer(tokens, labels, queries)


def predictor_of(model: "OneLayerAttention | InContextTransformer") -> OwnPredictor:
    """Our own models as predictors. One-layer attention knows its own dictionary's queries only."""
    from attangent.papers.p4_in_context.transformer import InContextTransformer

    if isinstance(model, InContextTransformer):
        return OwnPredictor(lambda tokens, labels, queries: _without_gradient(model, tokens, labels, queries))
    return OwnPredictor(lambda tokens, labels, queries: _own_queries(model, labels, queries))


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


def _implied_alpha(dictionary: Dictionary, labels: Tensor, answers: Tensor) -> tuple[float, float]:
    """The ridge nearest to the answers, by golden section in its logarithm over thirteen decades."""
    from scipy.optimize import minimize_scalar

    scale = dictionary.Z.square().sum().item()

    def distance(log10: float) -> float:
        limit = RidgeLimit(dictionary, alpha=scale * 10**log10)
        return _mean_square(limit.predict(labels)[:, dictionary.N :] - answers)

    grid = torch.linspace(-10, 3, 53).tolist()
    start = min(grid, key=distance)
    found: Any = minimize_scalar(
        distance, bounds=(start - 0.25, start + 0.25), method="bounded", options={"xatol": 1e-9}
    )
    return float(scale * 10**found.x), float(found.fun)


def _mean_square(x: Tensor) -> float:
    return _finite(x.square().mean().item())
