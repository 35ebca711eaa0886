"""Random regression data and random initial weights."""

from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from attangent._core.checks import check_choice, check_memory, check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator

Init = Literal["symmetric", "independent"]


def unit_data(
    n: int, d_in: int, d_out: int, seed: int
) -> tuple[Float[Tensor, "n d_in"], Float[Tensor, "n d_out"]]:
    """Draw points uniformly from the unit sphere and targets uniformly from the unit ball.

    Args:
        n: Number of points.
        d_in: Dimension of a point.
        d_out: Dimension of a target.
        seed: Seed of the draw.

    Returns:
        Points X (n, d_in) and targets Y (n, d_out), both float64.

    Raises:
        AttangentError: If a size is below 1 or the data do not fit into memory.

    Example:
        >>> X, Y = unit_data(n=8, d_in=4, d_out=2, seed=0)
        >>> X.shape, Y.shape, bool((X.norm(dim=1) - 1).abs().max() < 1e-12)
        (torch.Size([8, 4]), torch.Size([8, 2]), True)
    """
    for name, size in (("n", n), ("d_in", d_in), ("d_out", d_out)):
        check_size(name, size)
    check_memory("points and targets", n=n, columns=d_in + d_out)
    rng = generator(seed, "unit_data")
    X = _directions(n, d_in, rng)
    # A radius of U^(1/d) makes the volume, not the radius, uniform.
    radius = torch.rand(n, 1, generator=rng, dtype=torch.float64) ** (1 / d_out)
    return X, radius * _directions(n, d_out, rng)


def draw_weights(
    d_in: int, d_out: int, m: int, sigma: float, init: Init, seed: int, dtype: torch.dtype
) -> tuple[Float[Tensor, "d_in m"], Float[Tensor, "d_out m"]]:
    """Draw hidden weights W from N(0, sigma^2) and output signs a (P2 Definition 3.7).

    `symmetric` draws m/2 neurons and gives each a twin with the same w and the opposite a, so that the
    network starts at zero; `independent` draws all m.
    """
    check_choice("init", init, get_args(Init))
    if init == "symmetric" and m % 2:
        raise AttangentError(f"m is {m}, expected an even number: symmetric neurons come in pairs")
    check_memory("the weights", rows=d_in + d_out, m=m)
    drawn = m // 2 if init == "symmetric" else m
    rng = generator(seed, "weights")
    # Drawn in float64 whatever the dtype, so that a seed gives the same network in every precision.
    W = sigma * torch.randn(d_in, drawn, generator=rng, dtype=torch.float64)
    a = 2.0 * torch.randint(0, 2, (d_out, drawn), generator=rng).double() - 1.0
    if init == "symmetric":
        W = W.repeat_interleave(2, dim=1)
        a = torch.stack([a, -a], dim=2).reshape(d_out, m)
    return W.to(dtype), a.to(dtype)


def _directions(n: int, d: int, rng: torch.Generator) -> Tensor:
    drawn = torch.randn(n, d, generator=rng, dtype=torch.float64)
    return drawn / drawn.norm(dim=1, keepdim=True)
