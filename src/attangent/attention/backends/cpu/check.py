"""Small examples on which compiled code must do what the formulas say before it is used."""

import torch
import torch.nn.functional as F
from torch import Tensor

from attangent.attention.backends.cpu.call import Prepared, Tokens
from attangent.attention.backends.cpu.library import Compiled
from attangent.attention.features.affine import Affine, Kind
from attangent.attention.features.base import FeatureMap
from attangent.attention.masks import Mask

_KINDS: tuple[Kind, ...] = ("elu", "learned-elu", "learned-gelu", "exponential")
_DIM, _VALUES, _ROWS = 5, 3, 7


class _Plain(FeatureMap):
    """Gives the gradients of its form as they are."""

    def affine_gradients(self, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return weight, bias


def is_right(compiled: Compiled) -> bool:
    """Whether both passes give the formulas' numbers for each kind of map."""
    with torch.enable_grad():
        agrees = all(_agrees(compiled, kind) for kind in _KINDS)
    return agrees and (not compiled.takes_tokens or _attends(compiled))


def _attends(compiled: Compiled) -> bool:
    """Whether tokens and prefix in one call give what torch's attention and the formula give."""
    draw = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 21, 16, generator=draw).unbind()
    Z, mass = torch.randn(2, 16, 16, generator=draw), torch.rand(2, 16, generator=draw)
    logits = (q @ k.mT / 4).masked_fill(torch.ones(21, 21, dtype=torch.bool).triu(1), -torch.inf)
    out, lse = torch.softmax(logits, dim=-1) @ v, torch.logsumexp(logits, dim=-1)
    expected = _formula("elu", out, lse, [q, Z, mass], [])
    prefix = Prepared(compiled, FeatureMap(16, 16), Affine("elu"), Z, mass, 1.0, 60.0)
    found = prefix.attend(q, Tokens(k, v, Mask(causal=True), 0.25), for_backward=False)
    return found is not None and torch.allclose(found[0], expected, rtol=1e-4, atol=1e-4)


def _agrees(compiled: Compiled, kind: Kind) -> bool:
    draw = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw)

    size = _DIM if kind == "elu" else 20
    hidden = size - (kind in ("learned-elu", "learned-gelu"))
    weights = [] if kind == "elu" else [drawn(2, hidden, _DIM), drawn(2, hidden)]
    level = [] if kind == "elu" else [drawn(2)]
    Z, mass = drawn(2, size, _VALUES), drawn(2, size).abs()
    q, out, grad = drawn(1, 2, _ROWS, _DIM), drawn(1, 2, _ROWS, _VALUES), drawn(1, 2, _ROWS, _VALUES)
    lse = drawn(1, 2, _ROWS)
    inputs = [tensor.requires_grad_() for tensor in (q, Z, mass, *weights)]
    expected = _formula(kind, out, lse, inputs, level)
    slopes = torch.autograd.grad(expected, inputs, grad)
    with torch.no_grad():
        features = _Plain(_DIM, size)
        features.positive = kind != "learned-gelu"
        form = Affine(kind, *weights, *level)
        prefix = Prepared(compiled, features, form, Z, mass, 1.0, 60.0)
        found, grad_q = out.clone(), torch.zeros_like(q)
        total, sign = prefix.forward(q, found, lse, for_backward=True)
        assert total is not None
        gradients = prefix.backward(q, found, total, sign, grad, grad_q)
        added = _added(prefix, q, out.clone(), lse)
    pairs = zip([found, added, grad_q, *gradients], [expected, expected, *slopes], strict=True)
    return all(torch.allclose(have, want, rtol=1e-4, atol=1e-4) for have, want in pairs)


def _added(prefix: Prepared, q: Tensor, out: Tensor, lse: Tensor) -> Tensor:
    """The forward pass by the entry that is given addresses."""
    tensors = q, out, lse, prefix.Z, prefix.mass, *prefix.affine[1:]
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    prefix.compiled.add(
        bytes(prefix.fields(q, out, lse)), *addresses, None, None, None, prefix.compiled.parallel
    )
    return out


def _formula(kind: Kind, out: Tensor, lse: Tensor, inputs: list[Tensor], level: list[Tensor]) -> Tensor:
    q, Z, mass, *weights = inputs
    if kind == "elu":
        phi = F.elu(q * q.shape[-1] ** -0.25) + 1
    else:
        y = q @ weights[0].mT + weights[1].unsqueeze(-2)
        phi = {"learned-elu": lambda: F.elu(y) + 1, "learned-gelu": lambda: F.gelu(y), "exponential": y.exp}[
            kind
        ]()
        if kind != "exponential":
            phi = torch.cat([torch.ones_like(phi[..., :1]), phi], dim=-1)
        phi = phi * level[0].exp()[:, None, None]
    tokens = lse.exp().unsqueeze(-1)
    return (tokens * out + phi @ Z) / (tokens + phi @ mass.unsqueeze(-1))
