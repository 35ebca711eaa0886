"""Adapted models by their tangents at the rows trained on, as functions of all weights that are trained.

Index letters: R runs side by side, n rows, C logits, O = C - 1 outputs, d features, P weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from attangent.kernels.modules import TangentModel

Pull = Callable[[Tensor], Tensor]
"""From slopes in the outputs (R, n, O) to the gradient in all weights (R, P)."""


class Tangent(Protocol):
    """A model's stand-in: outputs (R, n, O) at weights (R, P), with noise in some rows, and the way back."""

    def at(self, theta: Tensor, rows: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Pull]: ...


@dataclass(frozen=True)
class OutputTangent:
    """F = F_0 + J (theta - theta_0); noise (n, O) is added to the outputs."""

    model: TangentModel

    def at(self, theta: Tensor, rows: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Pull]:
        outputs, jacobian = self.model.at(theta, rows)
        return outputs if noise is None else outputs + noise, lambda slopes: slopes.flatten(1) @ jacobian


@dataclass(frozen=True)
class Classifier:
    """z = W h + b of features h (d): where W and b stand among all weights, and Q (C, O) of the outputs Q'z.

    bias: no places where the classifier has no b.
    """

    weight: Tensor
    bias: Tensor
    basis: Tensor

    def parts(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """W (R, C, d) and b (R, 1, C), 0 where there is none."""
        weight = theta[:, self.weight].unflatten(1, (len(self.basis), -1))
        bias = theta[:, self.bias] if len(self.bias) else theta.new_zeros(len(theta), len(self.basis))
        return weight, bias.unsqueeze(1)

    def at(self, theta: Tensor, features: Tensor) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, Tensor]]]:
        """The outputs for features (R, n, d), and the way back: to the weights (R, P) and to the features."""
        weight, bias = self.parts(theta)
        outputs = (features @ weight.mT + bias) @ self.basis

        def back(slopes: Tensor) -> tuple[Tensor, Tensor]:
            logits = slopes @ self.basis.T
            gradient = torch.zeros_like(theta)
            gradient[:, self.weight] = (logits.mT @ features).flatten(1)
            if len(self.bias):
                gradient[:, self.bias] = logits.sum(dim=1)
            return gradient, logits @ weight

        return outputs, back

    def features_of(self, jacobian: Tensor, sight: Tensor) -> Tensor:
        """h (n, d) from J (n, k, P), the derivative of S'z: its entries for W are S h'."""
        own = jacobian[..., self.weight].float().unflatten(2, (len(self.basis), -1))
        return torch.einsum("nocd,co->nd", own, sight) / sight.shape[1]

    def main_sight(self, theta: Tensor, most: int) -> Tensor:
        """S (C, k), orthonormal: the k = `most` contrasts of logits that W at theta (P) tells most, or Q."""
        if self.basis.shape[1] <= most:
            return self.basis
        weight, _ = self.parts(theta[None])
        return self.basis @ torch.linalg.svd(self.basis.T @ weight[0]).U[:, :most]

    @property
    def places(self) -> Tensor:
        """Where W and b stand."""
        return torch.cat([self.weight, self.bias])

    def without(self, change: Tensor) -> Tensor:
        """A change of all weights (R, P), its own to keep, with that of the classifier set to 0."""
        change[:, self.places] = 0
        return change


@dataclass(frozen=True)
class FixedFeatures:
    """A classifier on features (n, d) that stay as they are."""

    classifier: Classifier
    features: Tensor

    def at(self, theta: Tensor, rows: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Pull]:
        features = self.features[rows] if noise is None else self.features[rows] + noise
        outputs, back = self.classifier.at(theta, features.expand(len(theta), -1, -1))
        return outputs, lambda slopes: back(slopes)[0]


@dataclass(frozen=True)
class FeatureTangent:
    """z = W h~ + b, h~ = h + U^+ G (phi - phi_0): the classifier W, b as it is, features by their tangent.

    phi are all other weights, G the derivative of U h in phi with U = S'W of a classifier of reference, S = Q
    or the main part of it. So features move as far as that classifier sees it, and what they add grows as
    the classifier does. Noise (n, d) is added to the features.

    model: the tangent of S'z at phi_0 and the classifier of reference.
    """

    model: TangentModel
    classifier: Classifier
    features: Tensor
    lift: Tensor

    @classmethod
    def of(cls, model: TangentModel, classifier: Classifier, sight: Tensor) -> "FeatureTangent":
        weight, _ = classifier.parts(model.theta[None])
        lift = torch.linalg.pinv(sight.T @ weight[0])
        return cls(model, classifier, classifier.features_of(model.jacobian, sight), lift)

    def at(self, theta: Tensor, rows: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Pull]:
        slope = self.model.jacobian[rows].flatten(0, 1).float()
        moved = self.classifier.without(theta - self.model.theta) @ slope.T
        features = self.features[rows] + moved.unflatten(1, (len(rows), -1)) @ self.lift.T
        outputs, back = self.classifier.at(theta, features if noise is None else features + noise)

        def pull(slopes: Tensor) -> Tensor:
            own, to_features = back(slopes)
            return own + self.classifier.without((to_features @ self.lift).flatten(1) @ slope)

        return outputs, pull
