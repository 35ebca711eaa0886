"""An adapted model as a function of what is trained: its tangents, and its own outputs, at encoded rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from attangent.kernels.functional import Functional
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT
from attangent.kernels.modules import TangentModel
from attangent.kernels.modules.jacobian import flattened, jacobian_rows, named
from attangent.tuning.encoding import Encoded, Padding, token_counts
from attangent.tuning.methods import is_head
from attangent.tuning.planning.tangents import Classifier, Tangent
from attangent.tuning.training import Collate

_AT_ONCE = 16


def contrasts(outputs: int) -> Tensor:
    """Q (C, C - 1), orthonormal columns that sum to 0: softmax sees logits z only through Q'z.

    One column where there is one output, a number and not a class.
    """
    if outputs == 1:
        return torch.ones(1, 1)
    centred = torch.eye(outputs) - 1 / outputs
    return torch.linalg.qr(centred[:, : outputs - 1]).Q


@dataclass(frozen=True)
class Network:
    """F(theta, x) = Q'z, the logits z of a model in contrasts, and the rows x as its inputs."""

    function: Functional
    basis: Tensor
    collate: Collate

    @classmethod
    def of(cls, adapted: nn.Module, outputs: int, collate: Collate) -> "Network":
        """The model without dropout, in the parameters that it would train."""
        basis = contrasts(outputs)
        function = Functional.of(adapted.eval(), None, lambda given: given.logits.float() @ basis)
        return cls(function, basis, collate)

    def seen_by(self, basis: Tensor) -> "Network":
        """The same model with the outputs B'z of another basis (C, k)."""
        function = replace(self.function, output=lambda given: given.logits.float() @ basis)
        return replace(self, function=function, basis=basis)

    @property
    def theta(self) -> Tensor:
        """The parameters as they are, (P)."""
        return flattened(self.function).float()

    @property
    def head_places(self) -> Tensor:
        """Which of the parameters belong to the classifier, (P)."""
        parts = [
            torch.full((value.numel(),), is_head(name)) for name, value in self.function.parameters.items()
        ]
        return torch.cat(parts)

    def tangent(
        self, rows: Any, theta: Tensor | None = None, memory_limit: float = DEFAULT_MEMORY_LIMIT
    ) -> TangentModel:
        """The tangent at theta (by default where the model is) and these rows."""
        parts = unpadded(rows, self.collate, _AT_ONCE)
        return TangentModel.gathered(self._at(theta), parts, len(rows), memory_limit)

    @property
    def classifier(self) -> Classifier | None:
        """Where the classifier stands among the parameters; None unless it is one linear layer."""
        places, at = {}, 0
        for name, value in self.function.parameters.items():
            if is_head(name):
                places[name.rsplit(".")[-1], value.ndim] = torch.arange(at, at + value.numel())
            at += value.numel()
        weight = places.pop(("weight", 2), None)
        bias = places.pop(("bias", 1), torch.arange(0))
        heads = sum(map(is_head, self.function.parameters))
        if weight is None or places or heads > 1 + (len(bias) > 0):
            return None
        return Classifier(weight, bias, self.basis)

    def along(
        self, rows: Any, theta: Tensor, reference: Tensor, wrapped: Callable[[TangentModel], Tangent]
    ) -> Tensor:
        """The outputs (K, n, O) at rows and parameters (K, P) by the tangent at `reference`; the rows'
        Jacobian is not kept."""
        function, found = self._at(reference), torch.empty(0)
        for places, x in unpadded(rows, self.collate, _AT_ONCE):
            for part in jacobian_rows(function, x, len(places)):
                here = TangentModel(function, part.outputs.float(), part.jacobian, reference)
                own, _ = wrapped(here).at(theta, torch.arange(len(places)))
                found = found if len(found) else torch.empty(len(theta), len(rows), own.shape[2])
                found[:, places] = own
        return found

    def outputs(self, rows: Any, theta: Tensor | None = None) -> Tensor:
        """The model's own outputs (n, C - 1) at theta."""
        function, found = self._at(theta), torch.empty(len(rows), self.basis.shape[1])
        with torch.no_grad():
            for places, x in unpadded(rows, self.collate, 2 * _AT_ONCE):
                found[places] = function.batch(function.parameters, x)
        return found

    def _at(self, theta: Tensor | None) -> Functional:
        if theta is None:
            return self.function
        return replace(self.function, parameters=named(self.function, theta))


def unpadded(rows: Any, collate: Collate, size: int) -> Iterator[tuple[list[int], dict[str, Tensor]]]:
    """Rows of one length together, at most `size`, as inputs without labels and, where nothing is padded,
    without a mask: such inputs vmap can follow."""
    lengths = token_counts(rows) or [0] * len(rows)
    exact = replace(collate, multiple=1) if isinstance(collate, Padding) else collate
    for length in sorted(set(lengths)):
        places = [i for i, own in enumerate(lengths) if own == length]
        for start in range(0, len(places), size):
            chosen = places[start : start + size]
            yield chosen, _inputs(exact([rows[i] for i in chosen]))


def _inputs(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {name: value for name, value in batch.items() if name != "labels"}
    if "attention_mask" in found and bool(found["attention_mask"].all()):
        del found["attention_mask"]
    return found


def targets_of(rows: list[Encoded]) -> Tensor:
    """The labels of all rows."""
    return torch.tensor([rows[i]["labels"] for i in range(len(rows))])
