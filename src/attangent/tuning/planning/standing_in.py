"""What stands in for a model while its runs are foretold: its tangent at the rows trained on, and dropout."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.kernels.modules import TangentModel
from attangent.tuning.methods.classifier import trained_classifier
from attangent.tuning.planning.dropout import Noise, dropout_draws, has_dropout
from attangent.tuning.planning.network import Network
from attangent.tuning.planning.objective import Objective
from attangent.tuning.planning.rollout import Course, Rollout
from attangent.tuning.planning.tangents import (
    Classifier,
    FeatureTangent,
    FixedFeatures,
    OutputTangent,
    Tangent,
)

MOST_DIRECTIONS = 8
"""In how many directions, at most, features are followed: with many classes, those that matter most."""


@dataclass(frozen=True)
class StandIn:
    """A tangent at `reference` (P), with the classifier apart where it is one linear layer.

    sight: S (C, k), the contrasts S'z of the logits whose derivative is taken.
    noise: what dropout adds to the features, or to the outputs where there is no such classifier.
    """

    network: Network
    classifier: Classifier | None
    sight: Tensor
    reference: Tensor
    tangent: Tangent
    noise: Noise | None
    memory_limit: float = DEFAULT_MEMORY_LIMIT

    @property
    def is_exact(self) -> bool:
        """Whether nothing but a linear classifier is trained."""
        return self.classifier is not None and len(self.classifier.places) == len(self.reference)

    @property
    def is_narrow(self) -> bool:
        """Whether features are followed in some of the directions only that the classifier sees."""
        return self.sight.shape[1] < self.network.basis.shape[1] and not self.is_exact

    def along(self, rows: Any, theta: Tensor) -> Tensor:
        """The outputs (K, n, O) at other rows and weights (K, P), by the tangent."""
        seen = self.network.seen_by(self.sight)
        return seen.along(rows, theta, self.reference, self._wrapped)

    def at(self, rows: Any, theta: Tensor) -> "StandIn":
        """The same with the tangent at other weights, noise as it is."""
        model = self.network.seen_by(self.sight).tangent(rows, theta, self.memory_limit)
        return replace(self, reference=theta, tangent=self._wrapped(model))

    def _wrapped(self, model: TangentModel) -> Tangent:
        return _wrapped(model, self.classifier, self.sight)


@dataclass(frozen=True)
class Practice:
    """What is known of runs before their tangent: one course, each weight's rate (1, P), loss and labels."""

    course: Course
    rates: Tensor
    objective: Objective
    targets: Tensor


def stand_in_for(
    network: Network, rows: Any, practice: Practice, draws: int, seed: int, memory_limit: float
) -> StandIn:
    """The stand-in for a model where its training starts.

    With a linear classifier the tangent is taken at the classifier that half the run would lead to were
    features to stay as they are: the one of the start may be next to nothing.
    """
    classifier, reference = network.classifier, network.theta
    module: Any = network.function.module
    layer = None if classifier is None else trained_classifier(module)
    drawn = dropout_draws(module, rows, network.collate, draws, seed, layer)
    if classifier is not None:
        reference = _halfway(network, classifier, drawn.mean(dim=0), practice)
    sight = network.basis if classifier is None else classifier.main_sight(reference, MOST_DIRECTIONS)
    model = network.seen_by(sight).tangent(rows, reference, memory_limit)
    tangent = _wrapped(model, classifier, sight)
    clean = tangent.features if isinstance(tangent, FeatureTangent) else model.outputs
    drawn = drawn if classifier is not None else drawn @ network.basis
    noise = Noise.of(drawn, clean) if has_dropout(module) else None
    return StandIn(network, classifier, sight, reference, tangent, noise, memory_limit)


def _halfway(network: Network, classifier: Classifier, features: Tensor, practice: Practice) -> Tensor:
    """The weights of the start with the classifier after half the run on these features."""
    start, course = network.theta, practice.course
    run = Rollout(course, start, practice.rates, practice.objective, practice.targets)
    run.advance(FixedFeatures(classifier, features), -(-course.steps // 2))
    reference = start.clone()
    reference[classifier.places] = run.theta[0, classifier.places]
    return reference


def _wrapped(model: TangentModel, classifier: Classifier | None, sight: Tensor) -> Tangent:
    return OutputTangent(model) if classifier is None else FeatureTangent.of(model, classifier, sight)
