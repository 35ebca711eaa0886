"""Both passes of a prefix over many queries, by the compiled code of rows.c.

Forward, in place, or from keys and values, whose attention o and lse it then computes too:

    out = keep o + add phi(q) Z,  keep = e^(lse - t),  add = e^(-t),  t = log(e^lse + phi(q) k)

Backward as in `fused.backward`. The maps it knows are those that have an `Affine` form:

    phi(x) = e^level [1, act(W x + b)]  or  e^level exp(W x + b)  or  elu(x d^(-1/4)) + 1

The code trusts its caller: `prepare` makes what it can read.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attangent.attention.backends.cpu.library import NOTHING, CallFields, Compiled
from attangent.attention.features.affine import Affine
from attangent.attention.features.base import FeatureMap
from attangent.attention.masks import Mask

KINDS = {"elu": 0, "learned-elu": 1, "learned-gelu": 2, "exponential": 3}
TYPES = {torch.float32: 0, torch.bfloat16: 1}
_NONE = 0, 0, 0
_FEWEST_ROWS = 96
"""A task has at least as many rows: to make a prefix ready costs as much as a few of them."""


class Tokens(NamedTuple):
    """Keys and values that queries attend to, with the factor of the logits."""

    k: Tensor
    v: Tensor
    mask: Mask
    scale: float

    def steps(self, q: Tensor) -> tuple[Any, ...]:
        """Those of keys, values and what is added to the logits."""
        added = self.mask.bias
        return _steps(self.k), _steps(self.v), _NONE if added is None else _steps(_spread(added, q, self.k))

    def addresses(self) -> tuple[int | None, ...]:
        return self.k.data_ptr(), self.v.data_ptr(), _address(self.mask.bias)


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
        total, sign = self._totals(lse, for_backward)
        steps = _steps(q), _steps(out), _steps(lse), _NONE, _NONE
        parts = self._parts(q, for_gradients=False)
        self._run(self.compiled.forward, q, parts, steps, (out, lse, total, sign))
        return total, sign

    def attend(
        self, q: Tensor, tokens: Tokens, for_backward: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None] | None:
        """The merged output, then as `forward`; None where the prefix is nothing, which is left to torch."""
        out, lse = empty_rows(q, tokens.v.shape[-1])
        total, sign = self._totals(lse, for_backward)
        steps = _steps(q), _steps(out), _steps(lse), _NONE, _NONE
        parts, results = self._parts(q, for_gradients=False), (out, lse, total, sign)
        done = self._run(self.compiled.forward, q, parts, steps, results, tokens=tokens)
        return (out, total, sign) if done else None

    def _totals(self, lse: Tensor, for_backward: bool) -> tuple[Tensor | None, Tensor | None]:
        total = torch.empty(lse.shape, dtype=lse.dtype) if for_backward else None
        return total, torch.empty_like(total) if total is not None and not self.features.positive else None

    def backward(
        self, q: Tensor, out: Tensor, total: Tensor, sign: Tensor | None, grad: Tensor, grad_q: Tensor | None
    ) -> list[Tensor]:
        """Gradients of Z, |mass| and the map's own weights; that of q is added to `grad_q` in place."""
        parts = self._parts(q, for_gradients=True)
        weights = [part for part in (self.affine.weight, self.affine.bias) if part is not None]
        heads = len(self.Z)
        sums = [torch.empty(parts, heads, *part.shape[1:]) for part in (self.Z, self.mass, *weights)]
        steps = _steps(q), _steps(out), _NONE, _steps(grad), _NONE if grad_q is None else _steps(grad_q)
        results = out, None, total, sign
        self._run(self.compiled.backward, q, parts, steps, results, (grad, grad_q, *sums))
        grad_Z, grad_mass, *of_form = (each[0] if parts == 1 else each.sum(dim=0) for each in sums)
        if of_form:
            of_form = self.features.affine_gradients(of_form[0], of_form[-1])
        return [grad_Z, grad_mass, *of_form]

    def _run(
        self,
        function: Any,
        q: Tensor,
        parts: int,
        steps: tuple[Any, ...],
        results: Sequence[Tensor | None],
        gradients: Sequence[Tensor | None] = (),
        tokens: Tokens | None = None,
    ) -> bool:
        """Whether it was done: not for tokens behind a prefix that is nothing."""
        tensors = q, *results, self.Z, self.mass, *self.affine[1:], *gradients
        call = self._filled(q, parts, steps, tensors, tokens)
        if tokens is not None:
            call.k, call.v, call.added = tokens.addresses()
        return is_done(function(ctypes.addressof(call), self.compiled.parallel))

    def fields(self, q: Tensor, out: Tensor, lse: Tensor, tokens: Tokens | None = None) -> CallFields:
        """Those of a forward pass, without addresses."""
        steps = _steps(q), _steps(out), _steps(lse), _NONE, _NONE
        return self._filled(q, self._parts(q, for_gradients=False), steps, (), tokens)

    def _filled(
        self,
        q: Tensor,
        parts: int,
        steps: tuple[Any, ...],
        tensors: Sequence[Tensor | None],
        tokens: Tokens | None = None,
    ) -> CallFields:
        """In their order: numbers, steps, then the addresses of q, out to sign, weights, gradients."""
        batch, heads, rows, dim = q.shape
        state_heads, size, values = self.Z.shape
        kind, weight, *_ = self.affine
        of_tokens, more_steps = (0, 1, 0), (_NONE, _NONE, _NONE)
        if tokens is not None:
            of_tokens = tokens.k.shape[2], heads // tokens.k.shape[1], tokens.mask.causal
            more_steps = tokens.steps(q)
        return CallFields(
            *(KINDS[kind], TYPES[q.dtype], self.features.positive),
            *(batch, heads, heads // state_heads, rows, dim, size, values),
            *(parts, torch.get_num_threads(), weight is not None and len(weight) > 1, *of_tokens),
            *(*steps, *more_steps),
            *map(_address, tensors),
            gain=self.gain,
            cap=self.cap,
            scale=1.0 if tokens is None else tokens.scale,
        )

    def _parts(self, q: Tensor, for_gradients: bool) -> int:
        """Into how many parts the rows of a head are cut: enough for all threads, none too short."""
        heads, threads = len(self.Z), torch.get_num_threads()
        rows = q.shape[0] * q.shape[1] * q.shape[2] // heads
        enough = heads % threads == 0 or heads >= 4 * threads
        if threads == 1 or enough:
            return 1
        wanted = threads if for_gradients else 2 * threads
        return max(1, min(wanted, rows // _FEWEST_ROWS))


def empty_rows(q: Tensor, values: int) -> tuple[Tensor, Tensor]:
    """Room for outputs (B, H, Lq, values) and logarithms of masses, laid out as torch has them."""
    batch, heads, rows, _ = q.shape
    out, lse = torch.empty(batch, rows, heads, values), torch.empty(batch, rows, heads)
    return out.transpose(1, 2), lse.transpose(1, 2)


def _spread(added: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return added.expand(*q.shape[:3], k.shape[2])


def is_done(code: int) -> bool:
    """What a pass gave back: False where a prefix is nothing."""
    if code not in (0, NOTHING):
        raise MemoryError("the compiled attention found no memory for its scratch space")
    return code == 0


def _steps(tensor: Tensor) -> tuple[int, int, int]:
    batch, head, row, *_ = tensor.stride()
    return batch, row, head


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()
