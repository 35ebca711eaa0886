"""A classifier that answers what infinitely long tuning would say: regression with the tangent kernel."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from torch import Tensor, nn

from attangent._checks import check_size
from attangent._errors import AttangentError
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.tuning.encoding import Padding
from attangent.tuning.loading import load_model, load_tokenizer, pad_with
from attangent.tuning.methods import Method
from attangent.tuning.methods.classifier import classifier_names
from attangent.tuning.planning.leave_one_out import Fit, best_fit
from attangent.tuning.planning.network import Network
from attangent.tuning.pooling import resolved_pooling, use_mean_pooling
from attangent.tuning.recipe import Recipe
from attangent.tuning.running import Task, started


class KernelTuned(ClassifierMixin, BaseEstimator):
    """f(x) = K(x, X) (K(X, X) + ridge I)^-1 Y with K = h h' + share J J', in closed form; nothing is trained.

    h is what the classifier reads, J the derivative of the logits in what `method` would train, both in
    units of their own. The ridge and the share of J J' are those of least squared error when each row in
    turn is left out, which is known in closed form too. Y are the labels in contrasts.

    model: a hub id, the folder of a saved model, or a loaded model for sequence classification, which is
        left as it is. tokenizer: the model's own where a name is given.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        method: str = "ntk",
        max_tokens: int = 128,
        seed: int = 0,
        memory_limit: float = DEFAULT_MEMORY_LIMIT,
    ):
        self.model, self.tokenizer, self.method = model, tokenizer, method
        self.max_tokens, self.seed, self.memory_limit = max_tokens, seed, memory_limit

    def fit(self, texts: Sequence[str], labels: Sequence[Any]) -> "KernelTuned":
        """Learn from texts and their labels, of any kind."""
        texts = _checked_texts(texts)
        if len(labels) != len(texts):
            raise AttangentError(f"there are {len(texts)} texts and {len(labels)} labels, expected as many")
        self.classes_, targets = np.unique(_checked_labels(labels), return_inverse=True)
        if len(self.classes_) < 2:
            raise AttangentError(f"all labels are {self.classes_[0]!r}, expected two kinds or more")
        model, self._tokenizer = self._ready()
        rows = self._encoded(texts, targets.tolist())
        task = Task(model, "classification", rows, Padding(self._tokenizer.pad_token_id))
        adapted, _ = started(task, Method(self.method), Recipe("cross-validated"), self.seed)
        self._network = Network.of(adapted, len(self.classes_), task.collate)
        tangent = self._network.tangent(rows, memory_limit=self.memory_limit)
        self._rows = _Features.of(self._network, tangent.jacobian)
        wanted = self._network.basis[torch.as_tensor(targets)].double()
        self._fit: Fit = best_fit(*self._rows.kernels(self._rows), wanted)
        self.share_, self.ridge_ = self._fit.share, self._fit.ridge
        return self

    def decision_function(self, texts: Sequence[str]) -> np.ndarray:
        """A score for each class, (n, classes)."""
        if not hasattr(self, "_fit"):
            raise AttangentError("fit has not been called")
        texts = _checked_texts(texts)
        rows = self._encoded(texts, [0] * len(texts))
        found = []
        for start in range(0, len(rows), 64):
            part = self._network.tangent(rows[start : start + 64], memory_limit=self.memory_limit)
            features = _Features.of(self._network, part.jacobian, self._rows)
            found.append(self._fit.predicted(*features.kernels(self._rows)))
        return (torch.cat(found) @ self._network.basis.double().T).numpy()

    def predict(self, texts: Sequence[str]) -> np.ndarray:
        """The label of each text."""
        places = self.decision_function(texts).argmax(axis=1)
        return self.classes_[places]

    def predict_proba(self, texts: Sequence[str]) -> np.ndarray:
        """Probabilities (n, classes): softmax of the scores, as warm as suits the rows left out."""
        scores = torch.as_tensor(self.decision_function(texts))
        return torch.softmax(scores * self._fit.sharpness, dim=1).numpy()

    def _ready(self) -> tuple[Any, Any]:
        check_size("max_tokens", self.max_tokens)
        if isinstance(self.model, nn.Module):
            if self.tokenizer is None:
                raise AttangentError("a loaded model is given without a tokenizer; give both")
            return _with_classes(copy.deepcopy(self.model), len(self.classes_)), self.tokenizer
        tokenizer = self.tokenizer or load_tokenizer(self.model)
        names = [str(label) for label in self.classes_]
        model = load_model(self.model, "classification", names, self.seed)
        if resolved_pooling("declared", self.model) == "mean":
            use_mean_pooling(model)
        pad_with(model, tokenizer)
        return model, tokenizer

    def _encoded(self, texts: list[str], targets: list[int]) -> list[dict[str, Any]]:
        given = self._tokenizer(texts, truncation=True, max_length=self.max_tokens)
        return [
            {**{name: values[i] for name, values in given.items()}, "labels": target}
            for i, target in enumerate(targets)
        ]


class _Features:
    """Rows as J (n, O, P), in parts: what the classifier reads, and the rest, each of mean square one."""

    def __init__(self, head: Tensor, rest: Tensor, scales: tuple[float, float]):
        self.head, self.rest, self.scales = head, rest, scales

    @classmethod
    def of(cls, network: Network, jacobian: Tensor, like: "_Features | None" = None) -> "_Features":
        """From a Jacobian; the units are those of `like`, or its own."""
        head = network.head_places
        parts = jacobian[..., head].flatten(0, 1).double(), jacobian[..., ~head].flatten(0, 1).float()
        if like is not None:
            return cls(*parts, like.scales)
        scales = [max(float(part.square().sum(dim=1).mean()), 1e-30) for part in parts]
        return cls(*parts, (scales[0], scales[1]))

    def kernels(self, others: "_Features") -> tuple[Tensor, Tensor]:
        """h h' and J J' between these rows and others, (n O, n' O)."""
        head = self.head @ others.head.T / self.scales[0]
        return head, (self.rest @ others.rest.T).double() / self.scales[1]


def _with_classes(model: Any, count: int) -> Any:
    names = classifier_names(model, "classification")
    layer = getattr(model, names[0])
    if not isinstance(layer, nn.Linear) or len(names) > 1:
        raise AttangentError(
            f"the classifier {', '.join(names)} is not one linear layer; give the model's name"
        )
    if layer.out_features != count:
        setattr(model, names[0], nn.Linear(layer.in_features, count, bias=layer.bias is not None))
        model.config.num_labels = model.num_labels = count
    return model.eval()


def _checked_texts(texts: Any) -> list[str]:
    if isinstance(texts, str) or not len(texts) or not all(isinstance(text, str) for text in texts):
        raise AttangentError("texts is not a list of texts; give one text for each row, at least one")
    return list(texts)


def _checked_labels(labels: Sequence[Any]) -> np.ndarray:
    try:
        found = np.asarray(labels)
    except ValueError:
        found = np.empty(())
    if found.ndim != 1:
        raise AttangentError("labels is not a list of single values; give one label for each text")
    return found
