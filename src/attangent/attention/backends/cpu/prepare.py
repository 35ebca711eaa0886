"""Decide whether compiled code can take a prefix and its rows, and hand the prefix over in its form.

The C code trusts its caller. So this module checks everything it reads, and uses the code only after it has
reproduced the formulas on small examples.
"""

from functools import cache

import torch
from torch import Tensor, nn

from attangent.attention.backends.cpu.library import (
    TYPES,
    AttentionLibrary,
    CompiledPrefix,
    load,
    warn_of_wrong_numbers,
)
from attangent.attention.backends.torch.prefix_side import TorchPrefix
from attangent.attention.backends.torch.tokens import GradientRows, KeyValues, flash, flash_gradients
from attangent.attention.features import Anchors, Calibrated, Elu, Learned
from attangent.attention.features.activations import Activation
from attangent.attention.features.base import Affine, FeatureMap
from attangent.attention.masks import Mask
from attangent.attention.shapes import Keys, Outputs, Queries, StateMass, StateZ, Values

# Largest head that tokens.h has room for.
_LARGEST_DIM = 256
# Numbers in the widest vectors of tokens.h.
_VECTOR = 16
# Queries lie next to each other in a vector: few of them leave most of it empty.
_FEWEST_QUERIES = 8


@cache
def trusted() -> AttentionLibrary | None:
    """Return the compiled code if it exists; warn and return None if it gives wrong numbers."""
    library = load()
    if library is None or is_right(library):
        return library
    warn_of_wrong_numbers("attention")
    return None


def prepare(
    features: FeatureMap, Z: StateZ, mass: StateMass, gain: float, cap: float
) -> CompiledPrefix | None:
    """Return the prefix for compiled code; None if there is no such code or it does not know the map."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return None
    library = trusted()
    if library is None:
        return None
    affine = readable(features, Z)
    if affine is None or not (is_plain(Z) and is_plain(mass)):
        return None
    return CompiledPrefix(library, features, affine, Z.contiguous(), mass.contiguous(), gain, cap)


def readable(features: FeatureMap, Z: StateZ) -> Affine | None:
    """Return the map's form with contiguous weights that fit Z; None if there is none."""
    affine = features.affine()
    if affine is None or not _fits(affine, Z):
        return None
    if affine.weight is None:
        return affine
    weights = [None if tensor is None else tensor.contiguous() for tensor in affine[1:]]
    if not all(tensor is None or is_plain(tensor) for tensor in weights):
        return None
    return Affine(affine.kind, *weights)


def takes(q: Tensor, *others: Tensor) -> bool:
    """Return whether queries, and outputs and gradients with them, are laid out as the code reads them."""
    if q.dtype not in TYPES or q.device.type != "cpu" or type(q) is not Tensor:
        return False
    return all(tensor.dtype == q.dtype and tensor.stride(-1) == 1 for tensor in (q, *others))


def takes_tokens(library: AttentionLibrary, q: Queries, k: Keys, v: Values, mask: Mask) -> bool:
    """Return whether compiled code can attend to these tokens too, and faster than torch."""
    if not library.takes_tokens or not _is_read(mask.bias, k):
        return False
    fits = q.shape[-1] <= _LARGEST_DIM >= v.shape[-1] and v.shape[-1] % _VECTOR == 0
    if not fits or q.shape[-2] < _FEWEST_QUERIES:
        return False
    return takes(q, k, v) and is_plain(k, q.dtype) and is_plain(v, q.dtype)


def differentiates_tokens(q: Queries, k: Keys) -> bool:
    """Return whether compiled code can also differentiate tokens that it takes, each head in one thread."""
    return q.shape[-1] % _VECTOR == 0 and k.shape[0] * k.shape[1] >= torch.get_num_threads()


def _is_read(bias: Tensor | None, k: Keys) -> bool:
    """Return whether the bias of neighbouring keys is contiguous."""
    if bias is None:
        return True
    return is_plain(bias, k.dtype) and bias.shape[-1] == k.shape[2] and bias.stride(-1) == 1


def is_plain(tensor: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Return whether this is an ordinary tensor of the dtype on the CPU."""
    plain = type(tensor) is Tensor or type(tensor) is nn.Parameter
    return plain and tensor.dtype == dtype and tensor.device.type == "cpu"


def _fits(affine: Affine, Z: StateZ) -> bool:
    heads, size, _ = Z.shape
    kind, weight, bias, level = affine
    if kind == "elu":
        return weight is None and bias is None and level is None
    hidden = size - (kind != "exponential")
    if weight is None or weight.ndim != 3 or weight.shape[0] not in (1, heads) or weight.shape[1] != hidden:
        return False
    return (bias is None or bias.shape == weight.shape[:2]) and (level is None or level.shape == (heads,))


def is_right(library: AttentionLibrary) -> bool:
    """Return whether the code gives the same numbers as torch operations, for each kind of map."""
    draw = torch.Generator().manual_seed(0)
    q, k, v, grad = torch.randn(4, 1, 2, 21, 16, generator=draw).unbind()
    maps = Elu(16), *(_example_map(kind, draw) for kind in ("elu", "gelu", None))
    with torch.no_grad():
        for features in maps:
            Z = torch.randn(2, features.size, 16, generator=draw)
            mass = torch.rand(2, features.size, generator=draw)
            affine = features.affine()
            assert affine is not None
            compiled = CompiledPrefix(library, features, affine, Z, mass, 1.0, 60.0)
            tokens = KeyValues(k, v, Mask(causal=True), 0.25)
            want = _passes(TorchPrefix.of(features, Z, mass, 0.25, 60.0), q, tokens, grad)
            have = [_passes(compiled, q, tokens, grad)]
            if library.takes_tokens:
                have += [_token_passes(compiled, *_lowered(q, tokens, grad, dtype)) for dtype in TYPES]
            bounds = 1e-4, 1e-4, 5e-2
            if not all(_is_close(each, want, bound) for each, bound in zip(have, bounds, strict=False)):
                return False
    return True


def _lowered(
    q: Queries, tokens: KeyValues, grad: Outputs, dtype: torch.dtype
) -> tuple[Queries, KeyValues, Outputs]:
    return q.to(dtype), tokens._replace(k=tokens.k.to(dtype), v=tokens.v.to(dtype)), grad.to(dtype)


def _is_close(have: list[Tensor], want: list[Tensor], bound: float) -> bool:
    return all(
        torch.allclose(a.float(), b, rtol=bound, atol=bound * max(1.0, float(b.abs().max())))
        for a, b in zip(have, want, strict=True)
    )


def _example_map(activation: Activation | None, draw: torch.Generator) -> FeatureMap:
    """Return a learned map, or anchors without an activation, in units that use every part of the form."""
    weight = torch.randn(2, 19, 16, generator=draw)
    inner = Anchors(weight) if activation is None else Learned(weight, weight[..., 0], activation)
    return Calibrated(inner, weight[:, 1], torch.full((2,), 2.0), weight[:, 2, 0])


def _passes(
    prefix: CompiledPrefix | TorchPrefix, q: Queries, tokens: KeyValues, grad: Outputs
) -> list[Tensor]:
    """Return the merged output, and the gradients of q, k, v, Z, mass and the map; tokens by torch."""
    out, lse = flash(q, *tokens)
    total, sign = prefix.forward(q, out, lse, for_backward=True)
    assert total is not None
    signed = grad if sign is None else grad * sign.unsqueeze(-1)
    grad_q, *of_tokens = flash_gradients(signed, q, tokens, out, total)
    rows = GradientRows(q, out, total, sign, grad, grad_q)
    return [out, grad_q, *of_tokens, *prefix.backward(rows)]


def _token_passes(prefix: CompiledPrefix, q: Queries, tokens: KeyValues, grad: Outputs) -> list[Tensor]:
    """Return the same; tokens by compiled code."""
    attended = prefix.attend(q, tokens, for_backward=True)
    assert attended is not None
    out, total, sign = attended
    assert total is not None
    grad_q = torch.empty_like(q)
    return [out, grad_q, *prefix.backward(GradientRows(q, out, total, sign, grad, grad_q), tokens)]
