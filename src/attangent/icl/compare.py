"""Compare an in-context learner with ridge regression and other rules, with confidence."""

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.arrays import as_double
from attangent._core.checks import check_memory, check_positive, check_size
from attangent._core.display import brief, table_html
from attangent._core.errors import AttangentError
from attangent._core.plots import PAST, check_picture, finished, in_style, panels
from attangent._core.random import generator
from attangent.icl.dictionary import IN_DOMAIN, Dictionary, Tasks
from attangent.icl.rules import RULES, RidgeLimit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Predictor = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(prompt tokens (N, d), labels (count, N), queries (Q, d)) -> answers (count, Q)."""

NONE = "none of these"
_RESAMPLED = 1000
_MOST_PANELS = 6


class RepresentationWarning(UserWarning):
    """Issued when the tokens do not determine the representations, so that no rule on them can be learned.

    Args:
        message: Which tokens, and what to change.

    Example:
        >>> issubclass(RepresentationWarning, UserWarning)
        True
    """


@runtime_checkable
class TrainedLearner(Protocol):
    """A model that was trained on a dictionary."""

    def answers(self, tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        """Answer queries (Q, d) after prompts of tokens (N, d) with labels (count, N): (count, Q)."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Mean squared figures over prompts and queries, divided by the mean square of the clean labels.

    Attributes:
        distance: Distance between the predictor and each rule, by the rule's name.
        interval: 95 % interval of each distance over random prompts (bootstrap over prompts).
        risk: Distance between each rule and the clean labels; "predictor" is that of the predictor.
        implied_alpha: The ridge whose answers are nearest to those of the predictor.
        implied_distance: The distance to that ridge.
        nearest: The nearest rule, or "none of these" if every rule is further than `most`.
        certainty: Share of bootstrap samples with the same nearest rule.
        most: Largest distance at which a rule may be what the predictor does.
        answers: The answers of the predictor and of each rule.

    Example:
        >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
        >>> compare_to_ridge(lambda tokens, labels, queries: 0 * labels, dictionary).nearest
        'zero'
    """

    distance: dict[str, float]
    interval: dict[str, tuple[float, float]]
    risk: dict[str, float]
    implied_alpha: float
    implied_distance: float
    nearest: str
    certainty: float
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
            f"certainty {self.certainty:.0%}; a rule further than {self.most:g} does not explain the answers",
            f"nearest ridge: alpha {self.implied_alpha:.4g}, at a distance of {self.implied_distance:.3g}",
        ]
        title = f"Nearest rule: {self.nearest}"
        return table_html(title, [*map(str, table.columns)], map(tuple, table.to_numpy()), notes)

    @in_style
    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the predictor's answers against those of the six nearest rules, one panel per rule.

        Args:
            path: File to write the figure to (.png, .svg or .pdf).

        Returns:
            The figure.
        """
        if path is not None:
            check_picture(path)
        names = self.table["rule"].tolist()[:_MOST_PANELS]
        figure, axes = panels(len(names), size=(3.2, 3.2))
        predicted = self.answers["predictor"].flatten()
        for panel, name in zip(axes, names, strict=True):
            rule = self.answers[name].flatten()
            panel.plot(rule, predicted, ".", ms=2, alpha=0.4)
            ends = [float(rule.min()), float(rule.max())]
            panel.plot(ends, ends, color=PAST, lw=0.8)
            panel.set(title=f"{name}: distance {self.distance[name]:.2g}", xlabel="rule", ylabel="predictor")
        return finished(figure, path)


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
    """Find the known rule, such as ridge regression, whose answers are nearest to those of a predictor.

    The predictor answers the dictionary's queries on fresh prompts, and so does each rule.

    Args:
        predictor: Maps tokens (N, d), labels (count, N) and queries (Q, d) to answers (count, Q).
        dictionary: Tokens, representations and noise; K must exceed N.
        prompts: Number of prompts.
        tasks: Distribution of the tasks.
        seed: Seed of prompts and bootstrap.
        rules: Names in `attangent.icl.rules.RULES`; by default all but the slow trees.
        most: Largest distance, as a share of the mean square of the clean labels, at which a rule may be
            what the predictor does.

    Returns:
        Distances, risks and the nearest rule.

    Raises:
        AttangentError: If a rule is unknown, the dictionary has no queries, or the answers have another
            shape or are not finite.

    Example:
        >>> from sklearn.linear_model import Ridge
        >>> from attangent.icl import sklearn_predictor
        >>> dictionary = Dictionary.random(K=12, d=4, m=4, N=8, tau=0.01, seed=0)
        >>> learner = sklearn_predictor(lambda: Ridge(alpha=0.01, fit_intercept=False))
        >>> compare_to_ridge(learner, dictionary).nearest
        'ridge on tokens'
    """
    names = _rule_names(rules)
    check_positive("most", most)
    _check_answerable(predictor, dictionary)
    check_memory("resampled prompts", prompts=check_size("prompts", prompts), times=_RESAMPLED)
    drawn = dictionary.prompts(prompts, tasks, seed)
    answers = {"predictor": _ask(predictor, dictionary, drawn.shown)}
    answers |= {name: RULES[name](dictionary, drawn.shown) for name in names}
    clean = drawn.clean[:, dictionary.N :]
    scale = clean.square().mean().item()
    distances = torch.stack([(answers["predictor"] - answers[name]).square().mean(dim=1) for name in names])
    distances = distances / scale
    alpha, implied_distance = _implied_alpha(dictionary, drawn.shown, answers["predictor"])
    nearest, certainty = _nearest(distances, names, most, seed)
    return Comparison(
        distance=dict(zip(names, map(_finite, distances.mean(dim=1).tolist()), strict=True)),
        interval=_intervals(distances, names, seed),
        risk={name: _mean_square(values - clean) / scale for name, values in answers.items()},
        implied_alpha=alpha,
        implied_distance=implied_distance / scale,
        nearest=nearest,
        certainty=certainty,
        most=most,
        answers=answers,
    )


@dataclass(frozen=True)
class TrainedPredictor:
    """A predictor that was trained on a dictionary, and so may know its representations."""

    model: TrainedLearner

    def __call__(self, tokens: Tensor, labels: Tensor, queries: Tensor) -> Tensor:
        return self.model.answers(tokens, labels, queries)


def predictor_of(model: TrainedLearner) -> TrainedPredictor:
    """Turn a model that was trained on a dictionary into a predictor.

    Such a model may know representations that the tokens do not determine, so that `compare_to_ridge`
    compares it without a RepresentationWarning.

    Args:
        model: An object with `answers(tokens, labels, queries)`, such as the models of
            `attangent.papers.p4_in_context`.

    Returns:
        A predictor for `compare_to_ridge`.

    Example:
        >>> class Zero:
        ...     def answers(self, tokens, labels, queries):
        ...         return torch.zeros(len(labels), len(queries))
        >>> dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, representation="independent")
        >>> compare_to_ridge(predictor_of(Zero()), dictionary).nearest
        'zero'
    """
    return TrainedPredictor(model)


def _check_answerable(predictor: Predictor, dictionary: Dictionary) -> None:
    """Raise if a dictionary has no queries; warn if the tokens do not determine the representations."""
    if dictionary.K == dictionary.N:
        raise AttangentError("the prompt shows all tokens of the dictionary: take K above N to have queries")
    if dictionary.apart and not isinstance(predictor, TrainedPredictor):
        warnings.warn(
            "the representations were drawn independently of the tokens, so that a learner which sees only "
            "tokens cannot do ridge regression on them: leave out representation=, or pass a function",
            RepresentationWarning,
            stacklevel=3,
        )


def _rule_names(rules: Iterable[str] | None) -> tuple[str, ...]:
    names = tuple(rules) if rules is not None else tuple(name for name in RULES if name != "trees")
    unknown = [name for name in names if name not in RULES]
    if unknown or not names or len(set(names)) < len(names):
        raise AttangentError(f"rules are {names}, expected different names out of {', '.join(RULES)}")
    return names


def _ask(predictor: Predictor, dictionary: Dictionary, labels: Tensor) -> Tensor:
    tokens = dictionary.tokens
    answers = as_double("answers", predictor(tokens[: dictionary.N], labels, tokens[dictionary.N :]))
    shape = (len(labels), dictionary.K - dictionary.N)
    if answers.shape != shape:
        raise AttangentError(
            f"the predictor returned answers of shape {tuple(answers.shape)}, expected {shape}: "
            "one row per prompt, one column per query"
        )
    return answers


def _resampled(distances: Float[Tensor, "rules count"], seed: int) -> Float[Tensor, "times rules"]:
    """Mean distances over prompts drawn from the prompts with replacement."""
    count = distances.shape[1]
    rows = torch.randint(count, (_RESAMPLED, count), generator=generator(seed, "icl comparison"))
    # A matrix of resampling weights turns all bootstrap means into one product.
    shares = torch.zeros(_RESAMPLED, count, dtype=torch.float64)
    shares.scatter_add_(1, rows, torch.full((_RESAMPLED, count), 1 / count, dtype=torch.float64))
    return shares @ distances.T


def _intervals(distances: Tensor, names: tuple[str, ...], seed: int) -> dict[str, tuple[float, float]]:
    ends = _resampled(distances, seed).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64), dim=0)
    pairs = zip(names, ends.T.tolist(), strict=True)
    return {name: (_finite(low), _finite(high)) for name, (low, high) in pairs}


def _nearest(distances: Tensor, names: tuple[str, ...], most: float, seed: int) -> tuple[str, float]:
    """The nearest rule, or none, and the share of bootstrap samples in which it is the same."""
    # Row 0 is the sample itself, the rest are the bootstrap.
    means = torch.cat([distances.mean(dim=1)[None], _resampled(distances, seed)])
    least, indices = means.min(dim=1)
    pairs = zip(least.tolist(), indices.tolist(), strict=True)
    winners = [names[index] if distance <= most else NONE for distance, index in pairs]
    return winners[0], winners[1:].count(winners[0]) / (len(winners) - 1)


def _implied_alpha(dictionary: Dictionary, labels: Tensor, answers: Tensor) -> tuple[float, float]:
    """Find the ridge nearest to the answers and its distance, in log10 over thirteen decades."""
    from scipy.optimize import minimize_scalar

    scale = dictionary.Z.square().sum().item()

    def distance(log10: float) -> float:
        limit = RidgeLimit(dictionary, alpha=scale * 10**log10)
        return _mean_square(limit.predict(labels)[:, dictionary.N :] - answers)

    # The distance may have several minima: find the basin on a grid, then refine within it.
    grid = torch.linspace(-10, 3, 53).tolist()
    start = min(grid, key=distance)
    result: Any = minimize_scalar(
        distance, bounds=(start - 0.25, start + 0.25), method="bounded", options={"xatol": 1e-9}
    )
    return float(scale * 10**result.x), float(result.fun)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.inf


def _mean_square(x: Tensor) -> float:
    return _finite(x.square().mean().item())
