"""The classifier's first weights: the logistic or ridge solution on the frozen model's features."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attangent.tuning.encoding import Encoded
from attangent.tuning.kinds import NEEDS, TaskKind

_AT_ONCE = 32
_STRENGTHS = tuple(10.0**power for power in range(-3, 3))
"""Inverse penalties tried by cross-validation."""


def linear_classifier(model: Any, classifier: Sequence[str]) -> nn.Linear | None:
    """The classifier, where it is one linear layer: only that has a closed form."""
    layer = getattr(model, classifier[0]) if len(classifier) == 1 else None
    return layer if isinstance(layer, nn.Linear) else None


def fit_head(
    kind: TaskKind,
    layer: nn.Linear,
    features: np.ndarray,
    targets: np.ndarray,
    seed: int = 0,
    weights: Tensor | None = None,
) -> float:
    """Put the solution on these features into the layer; the penalty's strength that was chosen."""
    if NEEDS[kind].values:
        return fit_values(layer, features, targets)
    return fit_classifier(layer, features, targets, seed, weights)


def fit_values(layer: nn.Linear, features: np.ndarray, targets: np.ndarray) -> float:
    """Put the ridge solution into a layer of one output; the penalty, by leave-one-out errors."""
    from sklearn.linear_model import RidgeCV

    centre, scale = _units(features, layer.bias is not None)
    penalties = [features.shape[1] / strength for strength in _STRENGTHS]
    fit: Any = RidgeCV(penalties, fit_intercept=layer.bias is not None).fit(
        (features - centre) / scale, targets
    )
    weight = np.asarray(fit.coef_).reshape(1, -1) / scale
    _put(layer, weight, np.asarray(fit.intercept_).reshape(1) - weight @ centre)
    return float(fit.alpha_)


def fit_classifier(
    layer: nn.Linear, features: np.ndarray, targets: np.ndarray, seed: int = 0, weights: Tensor | None = None
) -> float:
    """Put the logistic solution on these features into the layer; the inverse penalty that was chosen."""
    own = None if weights is None else dict(enumerate(weights.tolist()))
    units = _units(features, layer.bias is not None)
    weight, bias, strength = _fitted(features, targets, layer, seed, own, units)
    _put(layer, weight, bias)
    return strength


def _units(features: np.ndarray, centred: bool) -> tuple[np.ndarray, float]:
    """What is taken off the features (nothing for a layer without a bias to make up for it), and a scale."""
    centre = features.mean(axis=0) if centred else np.zeros(features.shape[1])
    return centre, max(float(np.sqrt(np.square(features - centre).mean())), 1e-12)


def _put(layer: nn.Linear, weight: np.ndarray, bias: np.ndarray) -> None:
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if layer.bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))


def features_of(
    model: Any,
    layer: nn.Module,
    rows: Sequence[Encoded],
    collate: Callable[[Sequence[Encoded]], dict[str, Tensor]],
) -> tuple[np.ndarray, np.ndarray]:
    """What the layer reads for each row, (n, d) in float64, and the rows' labels.

    With the layer out of the way the model's output is its input, at the token that a decoder picks.
    """
    seen, labels, training = [], [], model.training
    device = next(model.parameters()).device
    layer.forward = lambda states: states
    model.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(rows), _AT_ONCE):
                part = [rows[i] for i in range(start, min(start + _AT_ONCE, len(rows)))]
                batch = {name: value.to(device) for name, value in collate(part).items()}
                labels.append(batch.pop("labels").cpu())
                seen.append(model(**batch).logits.detach().double().cpu())
    finally:
        del layer.forward
        model.train(training)
    return torch.cat(seen).numpy(), torch.cat(labels).numpy()


def _fitted(
    features: np.ndarray,
    targets: np.ndarray,
    layer: nn.Linear,
    seed: int,
    weights: dict[int, float] | None,
    units: tuple[np.ndarray, float],
) -> tuple[np.ndarray, np.ndarray, float]:
    """argmin over (W, b) of sum_i -log softmax(W x_i + b)[y_i] + |W|^2 / 2C, with C by cross-validation.

    x are the features in the units given; W and b are returned for the features as they are. A class without
    rows gets the least score any class has.
    """
    centre, scale = units
    fit = _logistic((features - centre) / scale, targets, seed, weights, layer.bias is not None)
    present = np.asarray(fit.classes_)
    coefficients, intercepts = np.asarray(fit.coef_), np.asarray(fit.intercept_)
    if len(present) == 2:  # scikit-learn gives one row for two classes
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    weight = np.zeros((layer.out_features, features.shape[1]))
    bias = np.full(layer.out_features, intercepts.min())
    weight[present], bias[present] = coefficients / scale, intercepts
    return weight, bias - weight @ centre, float(fit.C)


def _logistic(
    x: np.ndarray, y: np.ndarray, seed: int, weights: dict[int, float] | None, intercept: bool
) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    own = None if weights is None else {label: weights[label] for label in np.unique(y)}
    least = int(np.unique(y, return_counts=True)[1].min())
    plain = LogisticRegression(C=1 / x.shape[1], max_iter=1000, class_weight=own, fit_intercept=intercept)
    if least < 2:
        return plain.fit(x, y)
    folds = StratifiedKFold(min(5, least), shuffle=True, random_state=seed)
    strengths = {"C": [strength / x.shape[1] for strength in _STRENGTHS]}
    return GridSearchCV(plain, strengths, cv=folds, scoring="neg_log_loss").fit(x, y).best_estimator_
