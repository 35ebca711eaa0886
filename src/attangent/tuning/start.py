"""The classifier's first weights: the logistic solution on the frozen model's features."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attangent.tuning.encoding import Encoded

_AT_ONCE = 32
_STRENGTHS = tuple(10.0**power for power in range(-3, 3))
"""Inverse penalties tried by cross-validation."""


def linear_classifier(model: Any, classifier: Sequence[str]) -> nn.Linear | None:
    """The classifier, where it is one linear layer on a vector for each row: only that has a closed form.

    The `score` of decoders reads every token, and the row's own is picked afterwards.
    """
    layer = getattr(model, classifier[0]) if len(classifier) == 1 and classifier[0] != "score" else None
    return layer if isinstance(layer, nn.Linear) else None


def fit_classifier(
    layer: nn.Linear, features: np.ndarray, targets: np.ndarray, seed: int = 0, weights: Tensor | None = None
) -> float:
    """Put the logistic solution on these features into the layer; the inverse penalty that was chosen."""
    own = None if weights is None else dict(enumerate(weights.tolist()))
    weight, bias, strength = _fitted(features, targets, layer.out_features, seed, own)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weight))
        if layer.bias is not None:
            layer.bias.copy_(torch.from_numpy(bias))
    return strength


def features_of(
    model: Any,
    layer: nn.Module,
    rows: Sequence[Encoded],
    collate: Callable[[Sequence[Encoded]], dict[str, Tensor]],
) -> tuple[np.ndarray, np.ndarray]:
    """What goes into the layer for each row, (n, d) in float64, and the rows' labels."""
    seen: list[Tensor] = []
    training = model.training
    handle = layer.register_forward_pre_hook(lambda _, args: seen.append(args[0].detach().double().cpu()))
    device, labels = next(model.parameters()).device, []
    model.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(rows), _AT_ONCE):
                part = [rows[i] for i in range(start, min(start + _AT_ONCE, len(rows)))]
                batch = {name: value.to(device) for name, value in collate(part).items()}
                labels.append(batch.pop("labels").cpu())
                model(**batch)
    finally:
        handle.remove()
        model.train(training)
    return torch.cat(seen).numpy(), torch.cat(labels).numpy()


def _fitted(
    features: np.ndarray, targets: np.ndarray, classes: int, seed: int, weights: dict[int, float] | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """argmin over (W, b) of sum_i -log softmax(W x_i + b)[y_i] + |W|^2 / 2C, with C by cross-validation.

    x are the features centred and divided by their standard deviation over all coordinates; W and b are
    returned for the features as they are. A class without rows gets the least score any class has.
    """
    centre = features.mean(axis=0)
    scale = max(float((features - centre).std()), 1e-12)
    fit = _logistic((features - centre) / scale, targets, seed, weights)
    present = np.asarray(fit.classes_)
    coefficients, intercepts = np.asarray(fit.coef_), np.asarray(fit.intercept_)
    if len(present) == 2:  # scikit-learn gives one row for two classes
        coefficients = np.concatenate([-coefficients / 2, coefficients / 2])
        intercepts = np.concatenate([-intercepts / 2, intercepts / 2])
    weight = np.zeros((classes, features.shape[1]))
    bias = np.full(classes, intercepts.min())
    weight[present], bias[present] = coefficients / scale, intercepts
    return weight, bias - weight @ centre, float(fit.C)


def _logistic(x: np.ndarray, y: np.ndarray, seed: int, weights: dict[int, float] | None) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    own = None if weights is None else {label: weights[label] for label in np.unique(y)}
    least = int(np.unique(y, return_counts=True)[1].min())
    plain = LogisticRegression(C=1 / x.shape[1], max_iter=1000, class_weight=own)
    if least < 2:
        return plain.fit(x, y)
    folds = StratifiedKFold(min(5, least), shuffle=True, random_state=seed)
    strengths = {"C": [strength / x.shape[1] for strength in _STRENGTHS]}
    return GridSearchCV(plain, strengths, cv=folds, scoring="neg_log_loss").fit(x, y).best_estimator_
