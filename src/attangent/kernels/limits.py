"""Kernels of infinitely wide networks at initialisation, in closed form.

With g = x.z and weights N(0, sigma^2 I) the softmax normaliser becomes its mean, e^(sigma^2 |x|^2 / 2), and
what remains are Gaussian moments. All kernels are in the output-major order of the networks.
"""

from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_between, check_positive, check_size
from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent.kernels._inputs import as_points
from attangent.kernels.network import Kind

_DOUBLE = torch.zeros((), dtype=torch.float64)
_SIGMAS = 1e-150, 1e150
"""Deviations whose squares are numbers."""


def softmax_limit(X: Any, X2: Any = None, d_out: int = 1, sigma: float = 1.0) -> Tensor:
    """delta_kl g e^(sigma^2 g): the limit of `SoftmaxNetwork.kernel` (P2).

    >>> softmax_limit(torch.eye(2, dtype=torch.float64), sigma=1.0)
    tensor([[2.7183, 0.0000],
            [0.0000, 2.7183]], dtype=torch.float64)
    """
    X, X2 = _points(X, X2)
    g = X @ X2.T
    return _each_output(g * torch.exp(check_positive("sigma", sigma) ** 2 * g), d_out)


def relu_limit(X: Any, X2: Any = None, d_out: int = 1, sigma: float = 1.0) -> Tensor:
    """delta_kl g (pi - angle(x, z)) / (2 pi): the limit of `ReLUNetwork.kernel`, whatever sigma is."""
    X, X2 = _points(X, X2)
    check_positive("sigma", sigma)
    g = X @ X2.T
    lengths = X.norm(dim=1)[:, None] * X2.norm(dim=1)
    angle = torch.arccos((g / lengths.clamp(min=torch.finfo(g.dtype).tiny)).clamp(-1, 1))
    return _each_output(g * (torch.pi - angle) / (2 * torch.pi), d_out)


def exp_limit(X: Any, X2: Any = None, d_out: int = 1, sigma: float = 1.0) -> Tensor:
    """delta_kl g e^(sigma^2 |x + z|^2 / 2): the limit of `ExpNetwork.kernel`."""
    X, X2 = _points(X, X2)
    square = (X[:, None, :] + X2[None, :, :]).square().sum(dim=2)
    return _each_output(
        X @ X2.T * torch.exp(check_between("sigma", sigma, *_SIGMAS) ** 2 * square / 2), d_out
    )


def prefix_limit(X: Any, X2: Any = None, sigma: float = 1.0, kind: Kind = "exact") -> Tensor:
    """The limit of `PrefixNetwork.kernel` (P1), with p = x + z and s = sigma:

    paper: g e^(s^2 g) (s^2 delta_kl + s^4 p_k p_l);
    exact: the same plus e^(s^2 g) (s^2 (p_k x_l + p_l z_k) + delta_kl).
    """
    X, X2 = _points(X, X2)
    if kind not in ("exact", "paper"):
        raise AttangentError(f"kind is {kind!r}, expected one of exact, paper")
    s2, d = check_positive("sigma", sigma) ** 2, X.shape[1]
    g = X @ X2.T
    p = X[:, None, :] + X2[None, :, :]  # (i, j, k)
    same = torch.eye(d, dtype=X.dtype)[:, None, :, None]  # (k, i, l, j)
    kernel = g[:, None, :] * (s2 * same + s2**2 * torch.einsum("ijk,ijl->kilj", p, p))
    if kind == "exact":
        crossed = torch.einsum("ijk,il->kilj", p, X) + torch.einsum("ijl,jk->kilj", p, X2)
        kernel = kernel + s2 * crossed + same
    return (torch.exp(s2 * g)[:, None, :] * kernel).flatten(2).flatten(0, 1)


def _points(X: Any, X2: Any) -> tuple[Tensor, Tensor]:
    X = as_points("X", X, None, _DOUBLE)
    return X, X if X2 is None else as_points("X2", X2, X.shape[1], _DOUBLE)


def _each_output(block: Tensor, d_out: int) -> Tensor:
    """The same n x n2 block for each output, nothing between outputs."""
    rows, columns = (check_size("d_out", d_out) * size for size in block.shape)
    check_memory("a kernel for every output", rows=rows, columns=columns)
    return torch.kron(torch.eye(d_out, dtype=block.dtype), block)
