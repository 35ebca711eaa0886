"""Both passes of a prefix over many queries, by the compiled code of rows.c.

Forward, in place:

    out = keep out + add phi(q) Z,  keep = e^(lse - t),  add = e^(-t),  t = log(e^lse + phi(q) k)

Backward as in `fused.backward`. The maps it knows are those that have an `Affine` form:

    phi(x) = e^level [1, act(W x + b)]  or  e^level exp(W x + b)  or  elu(x d^(-1/4)) + 1

The code trusts its caller: `prepare` makes what it can read.
"""

import ctypes
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent.attention.compiled.library import CallFields, Compiled
from attangent.attention.features.affine import Affine
from attangent.attention.features.base import FeatureMap

_KINDS = {"elu": 0, "learned-elu": 1, "learned-gelu": 2, "exponential": 3}
TYPES = {torch.float32: 0, torch.bfloat16: 1}
_FEWEST_ROWS = 96
"""A task has at least as many rows: to make a prefix ready costs as much as a few of them."""


class Prepared(NamedTuple):
    """A prefix whose weights the compiled code can read."""

    compiled: Compiled
    features: FeatureMap
    affine: Affine
    Z: Tensor
    mass: Tensor
    gain: float
    cap: float

    def forward(
        self, q: Tensor, out: Tensor, lse: Tensor, for_backward: bool
    ) -> tuple[Tensor | None, Tensor | None]:
        """Adds the prefix to `out` in place; log |whole mass| and its sign (None: positive) where wanted."""
        total = torch.empty(lse.shape, dtype=lse.dtype) if for_backward else None
        sign = torch.empty_like(total) if total is not None and not self.features.positive else None
        call = self._call(q, parts=self._parts(q, for_gradients=False))
        _point(call, out=out, lse=lse, total=total, sign=sign)
        call.out_step, call.lse_step = _steps(out), _steps(lse)
        _run(self.compiled.forward, call, self.compiled.parallel)
        return total, sign

    def backward(
        self, q: Tensor, out: Tensor, total: Tensor, sign: Tensor | None, grad: Tensor, grad_q: Tensor | None
    ) -> list[Tensor]:
        """Gradients of Z, |mass| and the map's own weights; that of q is added to `grad_q` in place."""
        parts = self._parts(q, for_gradients=True)
        weights = [part for part in (self.affine.weight, self.affine.bias) if part is not None]
        heads = len(self.Z)
        sums = [torch.empty(parts, heads, *part.shape[1:]) for part in (self.Z, self.mass, *weights)]
        call = self._call(q, parts)
        _point(call, out=out, total=total, sign=sign, grad=grad, grad_q=grad_q)
        _point(call, **dict(zip(("grad_Z", "grad_mass", "grad_weight", "grad_bias"), sums, strict=False)))
        call.out_step, call.grad_step = _steps(out), _steps(grad)
        if grad_q is not None:
            call.grad_q_step = _steps(grad_q)
        _run(self.compiled.backward, call, self.compiled.parallel)
        grad_Z, grad_mass, *of_form = (each[0] if parts == 1 else each.sum(dim=0) for each in sums)
        if of_form:
            of_form = self.features.affine_gradients(of_form[0], of_form[-1])
        return [grad_Z, grad_mass, *of_form]

    def _call(self, q: Tensor, parts: int) -> CallFields:
        batch, heads, rows, dim = q.shape
        _, size, values = self.Z.shape
        affine, shared = self.affine, heads // len(self.Z)
        step = int(affine.weight is not None and len(affine.weight) > 1)
        numbers = batch, heads, shared, rows, dim, size, values, parts, torch.get_num_threads(), step
        kinds = _KINDS[affine.kind], TYPES[q.dtype], int(self.features.positive)
        call = CallFields(*kinds, *numbers, _steps(q), gain=self.gain, cap=self.cap)
        _point(call, q=q, Z=self.Z, mass=self.mass)
        _point(call, weight=affine.weight, bias=affine.bias, level=affine.level)
        return call

    def _parts(self, q: Tensor, for_gradients: bool) -> int:
        """Into how many parts the rows of a head are cut: enough for all threads, none too short."""
        heads, threads = len(self.Z), torch.get_num_threads()
        rows = q.shape[0] * q.shape[1] * q.shape[2] // heads
        enough = heads % threads == 0 or heads >= 4 * threads
        if threads == 1 or enough:
            return 1
        wanted = threads if for_gradients else 2 * threads
        return max(1, min(wanted, rows // _FEWEST_ROWS))


def _steps(tensor: Tensor) -> Any:
    batch, head, row, *_ = tensor.stride()
    return batch, row, head


def _point(call: CallFields, **tensors: Tensor | None) -> None:
    for name, tensor in tensors.items():
        if tensor is not None:
            setattr(call, name, tensor.data_ptr())


def _run(function: Any, call: CallFields, parallel: Any) -> None:
    if function(ctypes.addressof(call), parallel):
        raise MemoryError("the compiled attention found no memory for its scratch space")
