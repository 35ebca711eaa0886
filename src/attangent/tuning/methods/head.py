"""The classifier alone."""

from typing import TYPE_CHECKING, Any

from attangent._core.errors import AttangentError
from attangent.tuning.methods.technique import Site, WholeModel

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class Head(WholeModel):
    name = "head"

    def default_rate(self, method: "Method") -> float:
        return 1e-2

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        if not site.classifier:
            raise AttangentError(
                f"{type(model).__name__} has no head of its own to train; choose another method"
            )
        return model


class Probe(Head):
    """Logistic regression on the frozen model's features: the classifier in closed form, nothing trained."""

    name = "probe"
    trains = False
