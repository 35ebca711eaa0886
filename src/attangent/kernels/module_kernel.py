"""The tangent kernel of any torch module, by torch.func, in chunks that fit into memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import jacrev

from attangent.kernels.factors import blocks
from attangent.kernels.functional import (
    Functional,
    Output,
    Parameters,
    Points,
    differentiable_attention,
    per_point,
    take,
)
from attangent.kernels.memory import DEFAULT_MEMORY_LIMIT, check_limit, refuse_above


def tangent_kernel(
    module: nn.Module,
    x1: Points,
    x2: Points | None = None,
    params: str | Sequence[str] | None = None,
    trace: bool = False,
    memory_limit: float = DEFAULT_MEMORY_LIMIT,
    output: Output | None = None,
) -> Tensor:
    """J(x1) J(x2)' of a module with respect to its parameters.

    Points are tensors (n, ...), or mappings of argument names to such tensors for models that take keywords;
    `x2=None` is x1. `params` names parameters by pattern (all trainable ones by default). `output` picks a
    tensor (n, ...) from what the module returns (by default a tensor, or the model's logits).

    The result is (O n1, O n2) in output-major order, O outputs a point: the order of the networks of this
    room and of `predict_training`. With `trace=True` it is (n1, n2), summed over equal outputs. Jacobians are
    made for as many points at a time as `memory_limit` (bytes) allows, for fewer parameters at a time if one
    point's does not fit, and refused if one parameter's does not.

    >>> tangent_kernel(torch.nn.Linear(3, 2), torch.eye(3)).shape
    torch.Size([6, 6])
    """
    function = Functional.of(module, params, output)
    n1 = function.check_points("x1", x1)
    n2 = n1 if x2 is None else function.check_points("x2", x2)
    limit = check_limit(memory_limit)
    with differentiable_attention():
        outputs = function.batch(function.parameters, take(x1, slice(0, 1))).shape[1]
        plan = _Plan.of(function.parameters, outputs, (n1, n2), trace, limit)
        return _Kernel(function, plan, x1, x2).matrix()


@dataclass(frozen=True)
class _Plan:
    """Which parameters and how many points are taken at a time."""

    groups: list[list[str]]
    chunk: int
    outputs: int
    points: tuple[int, int]
    trace: bool
    dtype: torch.dtype

    @classmethod
    def of(
        cls, parameters: Parameters, outputs: int, points: tuple[int, int], trace: bool, limit: float
    ) -> "_Plan":
        dtype = _result_type(parameters)
        n1, n2 = points
        result = dtype.itemsize * n1 * n2 * (1 if trace else outputs**2)
        a_weight = 2 * outputs * dtype.itemsize  # one point's Jacobian on either side, for one weight
        largest = max(value.numel() for value in parameters.values())
        refuse_above(
            limit,
            result + a_weight * largest,
            f"a kernel of {n1} x {n2} points with {outputs} outputs and a parameter of {largest} weights",
            "choose parameters with params=, outputs with output=, or take fewer points",
        )
        room = (limit - result) / a_weight
        groups = _packed({name: value.numel() for name, value in parameters.items()}, room)
        weights = max(sum(parameters[name].numel() for name in group) for group in groups)
        chunk = max(1, min(max(points), int(room // weights)))
        return cls(groups, chunk, outputs, points, trace, dtype)


def _result_type(parameters: Parameters) -> torch.dtype:
    """The widest of the parameters' types, at least float32."""
    dtype = torch.float32
    for value in parameters.values():
        dtype = torch.promote_types(dtype, value.dtype)
    return dtype


def _packed(sizes: dict[str, int], room: float) -> list[list[str]]:
    """Names in groups of at most `room` weights, in their order."""
    groups: list[list[str]] = [[]]
    filled = 0
    for name, size in sizes.items():
        if groups[-1] and filled + size > room:
            groups.append([])
            filled = 0
        groups[-1].append(name)
        filled += size
    return groups


@dataclass(frozen=True)
class _Kernel:
    function: Functional
    plan: _Plan
    x1: Points
    x2: Points | None

    def matrix(self) -> Tensor:
        n1, n2 = self.plan.points
        outputs = 1 if self.plan.trace else self.plan.outputs
        device = next(iter(self.function.parameters.values())).device
        kernel = torch.zeros(outputs, n1, outputs, n2, dtype=self.plan.dtype, device=device)
        for group in self.plan.groups:
            parameters = {name: self.function.parameters[name] for name in group}
            for i in blocks(n1, self.plan.chunk):
                self._add_rows(kernel, parameters, i)
        return kernel.flatten(2).flatten(0, 1)

    def _add_rows(self, kernel: Tensor, parameters: Parameters, i: slice) -> None:
        """Add these parameters' part to the rows of points i and, by symmetry, to their columns."""
        J1 = self._jacobians(parameters, take(self.x1, i))
        other = self.x1 if self.x2 is None else self.x2
        for j in blocks(self.plan.points[1], self.plan.chunk):
            if self.x2 is None and j.start < i.start:
                continue
            same = self.x2 is None and i == j
            block = self._product(J1, J1 if same else self._jacobians(parameters, take(other, j)))
            kernel[:, i, :, j] += block
            if self.x2 is None and not same:
                kernel[:, j, :, i] += block.permute(2, 3, 0, 1)

    def _product(self, J1: list[Tensor], J2: list[Tensor]) -> Tensor:
        """Sum over parameters of J1 J2' (O, n1, O, n2), with one output where it is the trace."""
        if self.plan.trace:
            traced = sum(one.flatten(1) @ two.flatten(1).T for one, two in zip(J1, J2, strict=True))
            return torch.as_tensor(traced)[None, :, None, :]
        full = sum(one.flatten(0, 1) @ two.flatten(0, 1).T for one, two in zip(J1, J2, strict=True))
        shape = (len(J1[0]), self.plan.outputs, len(J2[0]), self.plan.outputs)
        return torch.as_tensor(full).view(shape).permute(1, 0, 3, 2)

    def _jacobians(self, parameters: Parameters, x: Points) -> list[Tensor]:
        """dF/dtheta at each point, a tensor (n, O, weights) for each parameter."""
        by_name = per_point(jacrev(self.function.one), parameters, x)
        return [by_name[name].detach().flatten(2).to(self.plan.dtype) for name in parameters]
