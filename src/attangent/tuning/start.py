"""The initial classifier: the logistic or ridge solution on the frozen model's features."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attangent.tuning.encoding import Collate
from attangent.tuning.tasks import NEEDS, TaskKind

_AT_ONCE = 32
# Inverse penalties tried by cross-validation, in units of 1 / number of features.
_STRENGTHS = tuple(10.0**power for power in range(-3, 3))
# Mean probability of the right label, on held-out rows, from which a classifier counts as confident.
_CONFIDENT = 0.9


@dataclass(frozen=True)
class HeadFit:
    """Outcome of the fit of a classifier.

    The best penalty often leaves no error on the fitted rows. Then nothing is left to learn, and an
    optimiser that takes steps of full size however small the gradient does harm.

    Attributes:
        strength: The best inverse penalty.
        least: The smallest inverse penalty that answers as well.
        confident: Whether the classifier is confident on held-out rows.
        weight: The solution at the best penalty, (outputs, dim).
        bias: Its bias.
    """

    strength: float
    least: float
    confident: bool
    weight: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False)
    bias: np.ndarray = field(default_factory=lambda: np.zeros(0), compare=False)

    def outputs(self, features: np.ndarray) -> Tensor:
        """Return the outputs of the best solution for these features."""
        return torch.from_numpy(features @ self.weight.T + self.bias).float()


def linear_classifier(model: Any, classifier: Sequence[str]) -> nn.Linear | None:
    """Return the classifier if it is one linear layer, as only that has a closed form."""
    layer = getattr(model, classifier[0]) if len(classifier) == 1 else None
    layer = getattr(layer, "original_module", layer)  # peft keeps the original next to its copy
    return layer if isinstance(layer, nn.Linear) else None


def fit_head(
    kind: TaskKind,
    layer: nn.Linear,
    features: np.ndarray,
    targets: np.ndarray,
    seed: int = 0,
    weights: Tensor | None = None,
    leave_error: bool = False,
) -> HeadFit:
    """Put the ridge or logistic solution on these features into the layer."""
    if NEEDS[kind].values:
        return fit_values(layer, features, targets)
    return fit_classifier(layer, features, targets, seed, weights, leave_error)


def fit_values(layer: nn.Linear, features: np.ndarray, targets: np.ndarray) -> HeadFit:
    """Put the ridge solution into a layer of one output; leave-one-out errors choose its penalty."""
    from sklearn.linear_model import RidgeCV

    centre, scale = _standardisation(features, layer.bias is not None)
    penalties = [features.shape[1] / strength for strength in _STRENGTHS]
    ridge: Any = RidgeCV(penalties, fit_intercept=layer.bias is not None)
    fit = ridge.fit((features - centre) / scale, targets)
    weight = np.asarray(fit.coef_).reshape(1, -1) / scale
    bias = np.asarray(fit.intercept_).reshape(1) - weight @ centre
    _put(layer, weight, bias)
    return HeadFit(float(fit.alpha_), float(fit.alpha_), confident=True, weight=weight, bias=bias)


def fit_classifier(
    layer: nn.Linear,
    features: np.ndarray,
    targets: np.ndarray,
    seed: int = 0,
    weights: Tensor | None = None,
    leave_error: bool = False,
) -> HeadFit:
    """Put the logistic solution into the layer, its penalty chosen by cross-validation.

    With `leave_error`, and unless the classifier is confident, the penalty is the strongest one that answers
    as well.
    """
    from sklearn.linear_model import LogisticRegression

    class_weight = None if weights is None else {label: float(weights[label]) for label in np.unique(targets)}
    centre, scale = _standardisation(features, layer.bias is not None)
    x = (features - centre) / scale
    build = partial(
        LogisticRegression, max_iter=1000, class_weight=class_weight, fit_intercept=layer.bias is not None
    )
    fit = _best_fit(build, x, targets, seed)
    best = build(C=fit.strength / x.shape[1]).fit(x, targets)
    weight, bias = _unstandardised(best, layer, centre, scale)
    if leave_error and not fit.confident and fit.least != fit.strength:
        stronger = build(C=fit.least / x.shape[1]).fit(x, targets)
        _put(layer, *_unstandardised(stronger, layer, centre, scale))
    else:
        _put(layer, weight, bias)
    return replace(fit, weight=weight, bias=bias)


def _standardisation(features: np.ndarray, centred: bool) -> tuple[np.ndarray, float]:
    """Return the centre (0 for a layer without a bias to absorb it) and the scale of the features."""
    centre = features.mean(axis=0) if centred else np.zeros(features.shape[1])
    return centre, max(float(np.sqrt(np.square(features - centre).mean())), 1e-12)


def _put(layer: nn.Linear, weight: np.ndarray, bias: np.ndarray) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if layer.bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))


def features_of(model: Any, layer: nn.Module, rows: Any, collate: Collate) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs of the layer, (rows, dim) in float64, and the labels."""
    features = []
    labels = []
    training = model.training
    device = next(model.parameters()).device
    # With the layer as the identity, the logits are its input, at the token that a decoder picks.
    layer.forward = lambda states: states
    model.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(rows), _AT_ONCE):
                chosen = [rows[i] for i in range(start, min(start + _AT_ONCE, len(rows)))]
                batch = {name: value.to(device) for name, value in collate(chosen).items()}
                labels.append(batch.pop("labels").cpu())
                features.append(model(**batch).logits.detach().double().cpu())
    finally:
        del layer.forward
        model.train(training)
    return torch.cat(features).numpy(), torch.cat(labels).numpy()


def _unstandardised(
    fit: Any, layer: nn.Linear, centre: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return W and b of argmin sum_i -log softmax(W x_i + b)[y_i] + |W|^2 / 2C for the raw features.

    The fit is to (x - centre) / scale. A class without rows gets the smallest bias of all.
    """
    present = np.asarray(fit.classes_)
    coefficients = np.asarray(fit.coef_)
    intercepts = np.asarray(fit.intercept_)
    if len(present) == 2:  # scikit-learn returns one row for two classes
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    weight = np.zeros((layer.out_features, len(centre)))
    bias = np.full(layer.out_features, intercepts.min())
    weight[present] = coefficients / scale
    bias[present] = intercepts
    return weight, bias - weight @ centre


def _best_fit(build: Callable[..., Any], x: np.ndarray, y: np.ndarray, seed: int) -> HeadFit:
    """Find the inverse penalty of least cross-validated loss, and the least one that answers as well.

    As well means: as many right answers as the best, up to one standard error. Classes with fewer rows than
    folds are spread over as many folds as they have rows.
    """
    folds = _folds(x, y, seed)
    if not folds:
        return HeadFit(1.0, 1.0, confident=False)
    fits = [build(warm_start=True) for _ in folds]
    losses: dict[float, float] = {}
    right: dict[float, float] = {}
    # From the strongest penalty on, each fit warm-started, until the loss rises: weak penalties take longest.
    for strength in _STRENGTHS:
        scores = [_score_fold(fit, strength, x, y, fold) for fit, fold in zip(fits, folds, strict=True)]
        losses[strength], right[strength] = np.mean(scores, axis=0).tolist()
        if losses[strength] > min(losses.values()):
            break
    best = min(losses, key=lambda strength: losses[strength])
    enough = right[best] - math.sqrt(right[best] * (1 - right[best]) / len(y))
    least = next(strength for strength in right if right[strength] >= enough)
    return HeadFit(best, min(least, best), confident=losses[best] < -math.log(_CONFIDENT))


def _folds(x: np.ndarray, y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Split the rows into training and held-out ones, up to five times.

    A held-out row whose label no training row has is left out, as are folds with one label.
    """
    from sklearn.model_selection import StratifiedKFold

    count = min(5, int(np.unique(y, return_counts=True)[1].max()))
    if count < 2:
        return []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)
        splits = list(StratifiedKFold(count, shuffle=True, random_state=seed).split(x, y))
    folds = [(train, test[np.isin(y[test], y[train])]) for train, test in splits]
    return [(train, test) for train, test in folds if len(test) and len(np.unique(y[train])) > 1]


def _score_fold(fit: Any, strength: float, x: np.ndarray, y: np.ndarray, fold: Any) -> tuple[float, float]:
    """Return loss and accuracy on the held-out rows of a fold."""
    train, test = fold
    fit.set_params(C=strength / x.shape[1]).fit(x[train], y[train])
    probabilities = fit.predict_proba(x[test])
    right = np.searchsorted(fit.classes_, y[test])
    chances = probabilities[np.arange(len(right)), right].clip(np.finfo(float).eps)
    return -float(np.log(chances).mean()), float((probabilities.argmax(axis=1) == right).mean())
