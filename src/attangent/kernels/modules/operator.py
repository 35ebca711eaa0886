"""J J' of any torch module as an operator that only multiplies: by J', then by J, batch by batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent.kernels.modules.functional import (
    Functional,
    Output,
    Points,
    differentiable_attention,
    take,
)
from attangent.kernels.tangent import blocks

Vector = NDArray[Any]


def tangent_operator(
    module: nn.Module,
    x: Points,
    params: str | Sequence[str] | None = None,
    output: Output | None = None,
    batch: int = 64,
) -> "TangentOperator":
    """Return K = J J', J = dF/dtheta of a module with O outputs at n points, without building K.

    The module may be any that autograd can differentiate twice: a transformers model with an adapter, a peft
    LoRA, a classifier. Rows are in output-major order.

    Args:
        module: Any module whose outputs depend on each point alone.
        x: Points: a tensor (n, ...), or a mapping of argument names to such tensors.
        params: Parameters by name pattern such as "*.attn.*"; by default all that are trainable.
        output: Picks a tensor (n, ...) from the module's output; by default a tensor or the logits.
        batch: Points to differentiate at a time. If it covers all points, their graph is stored between
            products, which halves the time of each.

    Returns:
        A square scipy LinearOperator of size O n.

    Raises:
        AttangentError: If the module cannot be called with x, or depends on chance (call `eval()`).

    Example:
        >>> from attangent.kernels import tangent_kernel
        >>> network = torch.nn.Linear(3, 2)
        >>> K = tangent_operator(network, torch.eye(3))
        >>> torch.allclose(torch.as_tensor(K @ np.eye(6)), tangent_kernel(network, torch.eye(3)).double())
        True
    """
    function = Functional.of(module, params, output)
    count = function.check_points("x", x)
    check_size("batch", batch)
    with differentiable_attention(), torch.no_grad():
        outputs = function.batch(function.parameters, take(x, slice(0, 1))).shape[1]
    return TangentOperator(function, x, count, outputs, batch)


class TangentOperator(LinearOperator):
    """K v = J (J'v), streamed over batches of points; `tangent_operator` makes one.

    Args:
        function: The module as a function of its parameters.
        x: Points.
        count: Number of points n.
        outputs: Outputs per point O.
        batch: Points to differentiate at a time.

    Example:
        >>> tangent_operator(torch.nn.Linear(3, 2), torch.eye(3)).shape
        (6, 6)
    """

    def __init__(self, function: Functional, x: Points, count: int, outputs: int, batch: int):
        self.function = function
        self.x = x
        self.batch = batch
        self.points = count
        self.outputs = outputs
        self._held: _Line | None = None
        super().__init__(np.dtype(np.float64), (outputs * count, outputs * count))

    def _matvec(self, x: Vector) -> Vector:
        columns = torch.as_tensor(np.ascontiguousarray(x, dtype=np.float64)).reshape(
            self.outputs, self.points
        )
        with differentiable_attention():
            return self._times(columns.T).T.reshape(-1).numpy()

    def _rmatvec(self, x: Vector) -> Vector:
        return self._matvec(x)

    def _times(self, cotangent: Tensor) -> Tensor:
        """Apply J J' to (n, O)."""
        gradient: tuple[Tensor, ...] | None = None
        for points, line in self._lines():
            pulled = line.pulled(cotangent[points])
            gradient = pulled if gradient is None else tuple(map(torch.add, gradient, pulled))
        assert gradient is not None
        return torch.cat([line.pushed(gradient).double().cpu() for _, line in self._lines()])

    def _lines(self) -> Iterator[tuple[slice, "_Line"]]:
        for points in blocks(self.points, self.batch):
            yield points, self._line(points)

    def _line(self, points: slice) -> "_Line":
        # With several batches the graphs of all would fill the memory that streaming saves.
        if self.points > self.batch:
            return _Line.of(self.function, take(self.x, points))
        if self._held is None:
            self._held = _Line.of(self.function, self.x)
        return self._held


@dataclass
class _Line:
    """F at some points with its graph: J'v by one backward pass, J u by a backward pass through that one."""

    outputs: Tensor
    parameters: tuple[Tensor, ...]
    _pullback: tuple[Tensor, tuple[Tensor, ...]] | None = None

    @classmethod
    def of(cls, function: Functional, x: Points) -> "_Line":
        parameters = {name: value.detach().requires_grad_() for name, value in function.parameters.items()}
        with torch.enable_grad():
            return cls(function.batch(parameters, x), tuple(parameters.values()))

    def pulled(self, cotangent: Tensor) -> tuple[Tensor, ...]:
        """Compute J'v for v (n, O)."""
        return torch.autograd.grad(
            self.outputs,
            self.parameters,
            cotangent.to(self.outputs),
            retain_graph=True,  # `pushed` and the next product need it again
            materialize_grads=True,
        )

    def pushed(self, tangent: tuple[Tensor, ...]) -> Tensor:
        """Compute J u (n, O) for a tangent u of the parameters."""
        # J'v is linear in v, so that the derivative of <J'v, u> in v is J u, whatever v. Double backward
        # works for operators that have no forward mode.
        if self._pullback is None:
            # Built once per batch: later products reuse the graph of the first backward pass.
            v = torch.zeros_like(self.outputs).requires_grad_()
            options: dict[str, Any] = {"create_graph": True, "materialize_grads": True}
            self._pullback = v, torch.autograd.grad(self.outputs, self.parameters, v, **options)
        v, pulled = self._pullback
        return torch.autograd.grad(pulled, v, tangent, retain_graph=True, materialize_grads=True)[0].detach()
