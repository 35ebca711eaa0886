"""The classifier's first weights: the logistic or ridge solution on the frozen model's features."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attangent.tuning.encoding import Encoded
from attangent.tuning.tasks import NEEDS, TaskKind

_AT_ONCE = 32
_STRENGTHS = tuple(10.0**power for power in range(-3, 3))
"""Inverse penalties tried by cross-validation, in units of 1 / size of the features."""
_SURE = 0.9
"""From this mean probability of the right label, on rows it was not fitted to, a classifier is sure."""


@dataclass(frozen=True)
class HeadFit:
    """The best inverse penalty, the least that answers as well, and whether the classifier is sure.

    The best one often leaves no error on the rows it was fitted to. Then nothing is left to learn for what is
    trained with it, and an optimiser that takes steps of full size however small the gradient does harm.
    """

    strength: float
    least: float
    sure: bool


def linear_classifier(model: Any, classifier: Sequence[str]) -> nn.Linear | None:
    """The classifier, where it is one linear layer: only that has a closed form. Of peft's two the first."""
    layer = getattr(model, classifier[0]) if len(classifier) == 1 else None
    layer = getattr(layer, "original_module", layer)
    return layer if isinstance(layer, nn.Linear) else None


def fit_head(
    kind: TaskKind,
    layer: nn.Linear,
    features: np.ndarray,
    targets: np.ndarray,
    seed: int = 0,
    weights: Tensor | None = None,
    to_train: bool = False,
) -> HeadFit:
    """Put the solution on these features into the layer; with `to_train` it leaves an error to learn from."""
    if NEEDS[kind].values:
        penalty = fit_values(layer, features, targets)
        return HeadFit(penalty, penalty, sure=True)
    return fit_classifier(layer, features, targets, seed, weights, to_train)


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
    layer: nn.Linear,
    features: np.ndarray,
    targets: np.ndarray,
    seed: int = 0,
    weights: Tensor | None = None,
    to_train: bool = False,
) -> HeadFit:
    """Put the logistic solution on these features into the layer, its penalty chosen by cross-validation.

    With `to_train`, and unless the classifier is sure, it is the strongest penalty that answers as well.
    """
    own = None if weights is None else {label: float(weights[label]) for label in np.unique(targets)}
    centre, scale = _units(features, layer.bias is not None)
    x = (features - centre) / scale
    from sklearn.linear_model import LogisticRegression

    made = partial(LogisticRegression, max_iter=1000, class_weight=own, fit_intercept=layer.bias is not None)
    fit = _best_fit(made, x, targets, seed)
    strength = fit.least if to_train and not fit.sure else fit.strength
    found = made(C=strength / x.shape[1]).fit(x, targets)
    _put(layer, *_in_own_units(found, layer, centre, scale))
    return fit


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


def _in_own_units(
    fit: Any, layer: nn.Linear, centre: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """W and b of argmin sum_i -log softmax(W x_i + b)[y_i] + |W|^2 / 2C, for features as they are.

    The fit is to features x less `centre`, over `scale`. A class without rows gets the least score any has.
    """
    present = np.asarray(fit.classes_)
    coefficients, intercepts = np.asarray(fit.coef_), np.asarray(fit.intercept_)
    if len(present) == 2:  # scikit-learn gives one row for two classes
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    weight = np.zeros((layer.out_features, len(centre)))
    bias = np.full(layer.out_features, intercepts.min())
    weight[present], bias[present] = coefficients / scale, intercepts
    return weight, bias - weight @ centre


def _best_fit(made: Callable[..., Any], x: np.ndarray, y: np.ndarray, seed: int) -> HeadFit:
    """The inverse penalty of least cross-validated loss, and the least one that answers as well.

    That is: as many rows right as the best, but for a standard error. Penalties are tried from the strongest
    on until the loss rises, each fit from the one before; what comes after the rise is what takes longest.
    """
    from sklearn.model_selection import StratifiedKFold

    rows = int(np.unique(y, return_counts=True)[1].min())
    if rows < 2:
        return HeadFit(1.0, 1.0, sure=False)
    parts = list(StratifiedKFold(min(5, rows), shuffle=True, random_state=seed).split(x, y))
    fits = [made(warm_start=True) for _ in parts]
    losses: dict[float, float] = {}
    right: dict[float, float] = {}
    for strength in _STRENGTHS:
        scores = [_scored(fit, strength, x, y, part) for fit, part in zip(fits, parts, strict=True)]
        losses[strength], right[strength] = np.mean(scores, axis=0).tolist()
        if losses[strength] > min(losses.values()):
            break
    best = min(losses, key=lambda strength: losses[strength])
    enough = right[best] - math.sqrt(right[best] * (1 - right[best]) / len(y))
    least = next(strength for strength in right if right[strength] >= enough)
    return HeadFit(best, min(least, best), sure=losses[best] < -math.log(_SURE))


def _scored(fit: Any, strength: float, x: np.ndarray, y: np.ndarray, part: Any) -> tuple[float, float]:
    """Loss and accuracy on the rows kept apart of the fit to the others."""
    from sklearn.metrics import log_loss

    train, test = part
    fit.set_params(C=strength / x.shape[1]).fit(x[train], y[train])
    answers = fit.predict_proba(x[test])
    return log_loss(y[test], answers, labels=fit.classes_), float(fit.score(x[test], y[test]))
