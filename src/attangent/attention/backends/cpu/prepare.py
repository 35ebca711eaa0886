"""Whether compiled code can take a prefix and its rows, and the prefix in the form it reads.

The code trusts its caller, so what is handed to it is checked here, and it is taken only if it gives the
right numbers on small examples.
"""

import warnings
from functools import cache

import torch
from torch import Tensor, nn

from attangent.attention.backends.cpu.call import TYPES, Prepared
from attangent.attention.backends.cpu.check import is_right
from attangent.attention.backends.cpu.library import Compiled, load
from attangent.attention.features.affine import Affine
from attangent.attention.features.base import FeatureMap
from attangent.attention.masks import Mask

_LARGEST_DIM, _VECTOR = 256, 16
"""The largest head that tokens.h has room for, and the numbers of its widest vectors."""
_FEWEST_QUERIES = 8
"""Queries lie beside each other in a vector, so that few of them leave most of it empty."""


@cache
def trusted() -> Compiled | None:
    """The compiled code where there is any; code that gives wrong numbers is left alone, with a warning."""
    found = load()
    if found is None or is_right(found):
        return found
    warnings.warn(
        "the compiled attention gives wrong numbers here and is not used, torch is: short sequences will be "
        "slower; install attangent again to compile it anew",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def prepare(features: FeatureMap, Z: Tensor, mass: Tensor, gain: float, cap: float) -> Prepared | None:
    """None where there is no compiled code, or none for such a prefix."""
    if torch.compiler.is_compiling() or torch._C._get_tracing_state() is not None:
        return None
    compiled = trusted()
    if compiled is None:
        return None
    affine = readable(features, Z)
    if affine is None or not (_is_plain(Z) and _is_plain(mass)):
        return None
    return Prepared(compiled, features, affine, Z.contiguous(), mass.contiguous(), gain, cap)


def readable(features: FeatureMap, Z: Tensor) -> Affine | None:
    """The map's form with weights that the code can read and that fit Z; None where there is none."""
    affine = features.affine()
    if affine is None or not _fits(affine, Z):
        return None
    if affine.weight is None:
        return affine
    weights = [None if part is None else part.contiguous() for part in affine[1:]]
    if not all(part is None or _is_plain(part) for part in weights):
        return None
    return Affine(affine.kind, *weights)


def takes(q: Tensor, *others: Tensor) -> bool:
    """Whether queries, and outputs and gradients of the same kind, are laid out as the code reads them."""
    if q.dtype not in TYPES or q.device.type != "cpu" or type(q) is not Tensor:
        return False
    return all(tensor.dtype == q.dtype and tensor.stride(-1) == 1 for tensor in (q, *others))


def takes_tokens(compiled: Compiled, q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> bool:
    """Whether compiled code attends to these tokens too, and sooner than torch."""
    if not compiled.takes_tokens or q.dtype != torch.float32 or not _is_read(mask.bias, k):
        return False
    fits = q.shape[-1] <= _LARGEST_DIM >= v.shape[-1] and v.shape[-1] % _VECTOR == 0
    return fits and q.shape[-2] >= _FEWEST_QUERIES and takes(q, k, v) and _is_plain(k) and _is_plain(v)


def _is_read(added: Tensor | None, k: Tensor) -> bool:
    """Whether what is added to the logits has its numbers for neighbouring keys beside each other."""
    return added is None or (_is_plain(added) and added.shape[-1] == k.shape[2] and added.stride(-1) == 1)


def _is_plain(tensor: Tensor) -> bool:
    plain = type(tensor) is Tensor or type(tensor) is nn.Parameter
    return plain and tensor.dtype == torch.float32 and tensor.device.type == "cpu"


def _fits(affine: Affine, Z: Tensor) -> bool:
    heads, size, _ = Z.shape
    if affine.kind == "elu":
        return affine.weight is None and affine.bias is None and affine.level is None
    weight, bias, level = affine.weight, affine.bias, affine.level
    hidden = size - (affine.kind != "exponential")
    if weight is None or weight.ndim != 3 or weight.shape[0] not in (1, heads) or weight.shape[1] != hidden:
        return False
    return (bias is None or bias.shape == weight.shape[:2]) and (level is None or level.shape == (heads,))
